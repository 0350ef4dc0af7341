/* cluster: blocks that run side by side on one OS thread, and reach each other's barriers and shared memory. A launch
   without clusters has clusters of one block. Never instrumented for ThreadSanitizer. */
#ifndef ATTILE_CLUSTER_H
#define ATTILE_CLUSTER_H

#include "block.h"

struct cluster {
    struct block *block[ATTILE_CLUSTER]; /* by rank */
    unsigned blocks;
    unsigned turn; /* of the last step, when turns are round */
    struct {
        unsigned arrived, alive, phase; /* threads that have arrived; ... that have not ended; phases done */
        struct queue waiting;
    } barrier;
};

/* Run the cluster `index` of the launch, of cluster->blocks idle blocks, until all have ended, one is refused, or nothing
   can run. False when it was refused: launch->fault says why, or another cluster's does. */
bool cluster_run(struct cluster *cluster, struct launch *launch, unsigned index);

/* What kernels call: arrive at the barrier of all threads of the cluster, or wait until all have arrived. */
void cluster_barrier(struct attile_block *shown, unsigned index, int wait, int line);

void cluster_ended(struct fiber *fiber); /* this thread has ended; the others stop waiting for it */

#endif
