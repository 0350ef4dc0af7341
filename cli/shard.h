/* shard: which part of the work this process does when many run in parallel: "i/n", or as the scheduler that started it
   says. */
#ifndef ATTILE_SHARD_H
#define ATTILE_SHARD_H

#include "text.h"

struct shard {
    int index, count; /* 0 <= index < count */
};

/* "2/8" is the third of eight; "auto" asks the environment: a Slurm array, mpirun, srun. False with a sentence in
   *error. */
bool shard_read(const char *text, struct shard *shard, struct text *error);

/* Every piece of work belongs to exactly one shard. */
static inline bool shard_has(struct shard shard, int piece) { return piece % shard.count == shard.index; }

#endif
