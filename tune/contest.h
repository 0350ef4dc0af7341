/* contest: which kernel to measure next, by successive halving: all are measured once, the faster half a second time,
   the faster half of those two more times, and so on, until two are left. Only the measurements decide, so an
   interrupted contest continues where it stopped once its measurements are read back.

   Round r measures the survivors until each has 2^r passes; the median of those passes decides who survives the
   round. */
#ifndef ATTILE_CONTEST_H
#define ATTILE_CONTEST_H

#include <stdbool.h>

enum { CONTEST_PASSES = 16, CONTEST_FINALISTS = 2 };

struct entrant {
    bool out;     /* failed: never measured again */
    bool ready;   /* compiled, so that it can be measured */
    bool kept;    /* survives every round, so that all others can be compared with it */
    int passes;   /* measurements so far, CONTEST_PASSES at most */
    float *time;  /* seconds of each pass; room for CONTEST_PASSES */
    int survived; /* set by contest_next and contest_rank: number of rounds it survived */
};

struct contest {
    int entrants;
    struct entrant *entrant; /* in the order of their first measurements */
    struct standing {
        double time;
        int entrant;
    } * standing; /* scratch, one per entrant */
    bool closed;  /* late entrants do not count: those without a pass are left out */
};

bool contest_open(struct contest *contest, int entrants); /* false when memory runs out */
void contest_close(struct contest *contest);

/* Records a measurement. Passes beyond CONTEST_PASSES are ignored. */
void contest_note(struct contest *contest, int entrant, double seconds);

enum contest_state {
    CONTEST_MEASURE, /* *entrant is next */
    CONTEST_WAIT,    /* the next ones are not ready yet */
    CONTEST_OVER     /* the finalists have their passes, or no kernel is left */
};
enum contest_state contest_next(struct contest *contest, int *entrant);

/* Returns the remaining passes if nothing fails, at least 1 unless the contest is over: to share out the remaining
   time. */
int contest_left(const struct contest *contest);

/* Returns the median of an entrant's passes; infinity without any. */
double contest_time(const struct entrant *entrant);

/* Fills `order` with all entrants that have a pass and are not out, best first: those that survived more rounds come
   first, then those with smaller times. Returns their number. */
int contest_rank(struct contest *contest, int *order);

#endif
