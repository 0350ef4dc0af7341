/* tuner_run: kernels and shapes in, measurements out. Worker processes compile candidates in parallel; one worker a GPU
   checks and times them, cell by cell, in the order of a contest (contest.h). Whatever is learnt goes to the journal at once,
   and what the journal holds already is not done again. */
#ifndef ATTILE_TUNER_RUN_H
#define ATTILE_TUNER_RUN_H

#include "tuner.h"

/* Open the GPUs, each in a worker. Then tuner->setting says where we are. False: *status and *error say why. */
bool tuner_connect(struct tuner *tuner, enum att_status *status, struct text *error);
void tuner_disconnect(struct tuner *tuner); /* accepts one that is not connected */

enum tuner_end {
    TUNER_DONE,        /* every contest is over */
    TUNER_OUT_OF_TIME, /* the budget is spent; every cell has a winner, if perhaps an early one */
    TUNER_TOO_SHORT,   /* the budget is spent, and a cell has no measurement at all */
    TUNER_INTERRUPTED,
    TUNER_FAILED /* *status and *error say why */
};
/* Do it, after tuner_connect and tuner_begin; tuner_recall happens inside. The journal is open and stays so. */
enum tuner_end tuner_run(struct tuner *tuner, struct journal *journal, enum att_status *status, struct text *error);

#endif
