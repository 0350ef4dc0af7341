/* race: which kernel to measure next, by successive halving: all are measured once, the faster half a second time, the
   faster half of those two more times, and so on, until two are left. What has been measured decides alone, so a race
   that was interrupted goes on where it was once its measurements are read back.

   Round r measures the survivors until each has 2^r passes; who survives it is decided by the median of those passes. */
#ifndef ATTILE_RACE_H
#define ATTILE_RACE_H

#include <stdbool.h>

enum { RACE_PASSES = 64, RACE_FINALISTS = 2 };

struct entrant {
    bool out;     /* failed: never measured again */
    bool ready;   /* compiled, so that it can be measured */
    int passes;   /* measurements so far, RACE_PASSES at most */
    float *time;  /* seconds, of each pass; RACE_PASSES of them */
    int survived; /* set by race_next and race_rank: rounds that it survived */
};

struct race {
    int entrants;
    struct entrant *entrant; /* in the order in which they are to be measured first */
    struct standing {
        double time;
        int entrant;
    } * standing; /* scratch, of as many */
    bool closed;  /* late ones do not count: who has no pass yet is left aside */
};

bool race_open(struct race *race, int entrants); /* false when memory runs out */
void race_close(struct race *race);

/* Note a measurement. More than RACE_PASSES are ignored. */
void race_note(struct race *race, int entrant, double seconds);

enum race_state {
    RACE_MEASURE, /* *entrant is next */
    RACE_WAIT,    /* the next ones are not ready yet */
    RACE_OVER     /* the finalists have their passes, or nobody is left */
};
enum race_state race_next(struct race *race, int *entrant);

/* Passes still to come if nothing fails, at least 1 unless it is over: for sharing out the time that is left. */
int race_left(const struct race *race);

/* Median of an entrant's passes; infinity without any. */
double race_time(const struct entrant *entrant);

/* Fill `order` with all entrants that have a pass and are not out, best first: who survived more rounds comes before who
   survived fewer, then the smaller time. Returns how many. */
int race_rank(struct race *race, int *order);

#endif
