/* contest: which kernel to measure next, by successive halving: all are measured once, the faster half a second time, the
   faster half of those two more times, and so on, until two are left. What has been measured decides alone, so a contest
   that was interrupted goes on where it was once its measurements are read back.

   Round r measures the survivors until each has 2^r passes; who survives it is decided by the median of those passes. */
#ifndef ATTILE_CONTEST_H
#define ATTILE_CONTEST_H

#include <stdbool.h>

enum { CONTEST_PASSES = 16, CONTEST_FINALISTS = 2 };

struct entrant {
    bool out;     /* failed: never measured again */
    bool ready;   /* compiled, so that it can be measured */
    bool kept;    /* survives every round, for all to be compared with */
    int passes;   /* measurements so far, CONTEST_PASSES at most */
    float *time;  /* seconds, of each pass; CONTEST_PASSES of them */
    int survived; /* set by contest_next and contest_rank: rounds that it survived */
};

struct contest {
    int entrants;
    struct entrant *entrant; /* in the order in which they are to be measured first */
    struct standing {
        double time;
        int entrant;
    } * standing; /* scratch, of as many */
    bool closed;  /* late ones do not count: who has no pass yet is left aside */
};

bool contest_open(struct contest *contest, int entrants); /* false when memory runs out */
void contest_close(struct contest *contest);

/* Note a measurement. More than CONTEST_PASSES are ignored. */
void contest_note(struct contest *contest, int entrant, double seconds);

enum contest_state {
    CONTEST_MEASURE, /* *entrant is next */
    CONTEST_WAIT,    /* the next ones are not ready yet */
    CONTEST_OVER     /* the finalists have their passes, or no kernel is left */
};
enum contest_state contest_next(struct contest *contest, int *entrant);

/* Passes still to come if nothing fails, at least 1 unless it is over: for sharing out the time that is left. */
int contest_left(const struct contest *contest);

/* Median of an entrant's passes; infinity without any. */
double contest_time(const struct entrant *entrant);

/* Fill `order` with all entrants that have a pass and are not out, best first: who survived more rounds comes before who
   survived fewer, then the smaller time. Returns how many. */
int contest_rank(struct contest *contest, int *order);

#endif
