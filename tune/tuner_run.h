/* tuner_run: kernels and shapes in, measurements out. Worker processes compile candidates in parallel; one worker per
   GPU checks and times them, cell by cell, in the order of a contest (contest.h). Every result goes to the journal at
   once, and what the journal already holds is not repeated. */
#ifndef ATTILE_TUNER_RUN_H
#define ATTILE_TUNER_RUN_H

#include "tuner.h"

/* Opens the GPUs, each in a worker. Then tuner->setting says where it runs. False: *status and *error say why. */
bool tuner_connect(struct tuner *tuner, enum att_status *status, struct text *error);
void tuner_disconnect(struct tuner *tuner); /* accepts one that is not connected */

enum tuner_end {
    TUNER_DONE,        /* every contest is over */
    TUNER_OUT_OF_TIME, /* the budget is spent; every cell has a winner, perhaps an early one */
    TUNER_TOO_SHORT,   /* the budget is spent, and a cell has no measurement at all */
    TUNER_INTERRUPTED,
    TUNER_FAILED /* *status and *error say why */
};
/* Runs the tuner, after tuner_connect and tuner_begin; it calls tuner_recall itself. The journal is open and stays
   open. */
enum tuner_end tuner_run(struct tuner *tuner, struct journal *journal, enum att_status *status, struct text *error);

#endif
