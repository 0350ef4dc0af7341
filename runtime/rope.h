/* rope: checks and prepares the launch arguments of rotary position embedding (problem knobs rope, rope_dim,
   rope_from). */
#ifndef ATTILE_ROPE_H
#define ATTILE_ROPE_H

#include "arguments.h"

struct rope_args {
    float base;                 /* 0 = 10000 */
    const float *cosine, *sine; /* tables: (rows, pairs) */
    int64_t row_stride, rows;   /* a stride of 0 means contiguous rows */
};

/* Number of element pairs of a row that are rotated; 0 = no embedding. */
int rope_pairs(const struct knobs *knobs);

/* Checks them, replaces a stride of 0, and appends the tables to the tensors of `out`. The tables must have `positions`
   rows. */
enum att_status rope_read(const struct knobs *knobs, struct rope_args *args, int64_t positions, struct arguments *out,
                          struct failure *failure);

/* Computes the frequencies of pairs 0, 1, ..., half - 1: base^(-i / half) radians per position, in units of 2^-64
   turns. */
void rope_turns(double base, int half, unsigned long long *turns);

#endif
