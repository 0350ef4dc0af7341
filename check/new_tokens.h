/* new_tokens: workloads of attention that append new tokens to the cache they attend to (knob append): the resulting Q,
   K and V, and what the cache must hold. */
#ifndef ATTILE_CHECK_NEW_TOKENS_H
#define ATTILE_CHECK_NEW_TOKENS_H

#include "gen.h"
#include "oracle.h"

struct workload;

/* What attention sees, shaped like the workload's inputs and rounded to their types. The errors say how far a kernel
   may round differently, since it rotates in fp32. Owned. */
struct new_tokens {
    float *q, *k, *v;
    double *q_error, *k_error;
};

/* Puts NaN into the rows of the cache that the launch will write, so that reading their old contents is noticed. The
   inputs must exist. */
void new_tokens_hide(struct workload *workload);

/* Makes the tokens, and fills `expected` and `allowed` of outputs k_cache and v_cache; -1 in `allowed` = unchanged.
   False when memory runs out. Free it in any case. */
bool new_tokens_make(struct new_tokens *tokens, const struct workload *workload);
void new_tokens_free(struct new_tokens *tokens);

#endif
