/* cluster: runs the blocks of a cluster on one OS thread; each can access the barriers and shared memory of the others.
   A launch without clusters has clusters of one block. ThreadSanitizer must not instrument this code. */
#ifndef ATTILE_CLUSTER_H
#define ATTILE_CLUSTER_H

#include "block.h"

struct cluster {
    struct block *block[ATTILE_CLUSTER]; /* by rank */
    unsigned blocks;
    unsigned turn; /* the block that ran last, for round robin */
    struct {
        unsigned arrived, alive, phase; /* threads that have arrived, threads that have not ended, phases completed */
        struct queue waiting;
    } barrier;
    struct queue counting; /* threads that wait for a counter in global memory */
    bool stopped;          /* no thread can run until a counter advances */
    unsigned looked_in;    /* the round of the launch in which this was last found */
};

/* Runs cluster `index` of the launch, on cluster->blocks idle blocks, until all have ended, one has a fault, or none
   can run. False = the launch has stopped; launch->fault says why. */
bool cluster_run(struct cluster *cluster, struct launch *launch, unsigned index);

/* Called by kernels: arrives at the barrier of the cluster's threads, or waits until all have arrived. */
void cluster_barrier(struct attile_block *shown, unsigned index, int wait, int line);

/* Called by kernels: waits until the counter in global memory has the expected value. */
void counter_await(struct attile_block *shown, unsigned index, const int *counter, int expected, int line);

/* Called when nothing else can run: wakes the threads that wait for counters if one of these has its value. */
enum counting {
    COUNTING_NONE,     /* no thread waits for a counter, or no counter will advance any more */
    COUNTING_COMPLETE, /* threads were woken */
    COUNTING_OTHERS    /* other workers may advance the counters */
};
enum counting counters_poll(struct cluster *cluster, struct launch *launch);

void cluster_ended(struct fiber *fiber); /* the others no longer wait for this thread */

#endif
