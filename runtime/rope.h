/* rope: what a launch is told of rotary position embedding (problem knobs rope, rope_dim, rope_from), checked. */
#ifndef ATTILE_ROPE_H
#define ATTILE_ROPE_H

#include "arguments.h"

struct rope_args {
    float base;                 /* 0 = 10000 */
    const float *cosine, *sine; /* tables: (rows, pairs) */
    int64_t row_stride, rows;   /* a stride of 0 is that of contiguous rows */
};

/* Pairs of elements of a row that are rotated; 0 = there is no embedding. */
int rope_pairs(const struct knobs *knobs);

/* Check them, set the stride that goes without saying, and place the tables behind the tensors of `out`. `positions` that the tables
   must have. */
enum att_status rope_read(const struct knobs *knobs, struct rope_args *args, int64_t positions, struct arguments *out,
                          struct failure *failure);

/* The frequencies of pairs 0, 1, ..., half - 1: base^(-i / half) radians per position, in units of 2^-64 turns. */
void rope_turns(double base, int half, unsigned long long *turns);

#endif
