/* new_tokens: workloads of attention that write new tokens into the cache they attend to (knob append): what Q, K and V are then, and
   what must be in the cache. */
#ifndef ATTILE_CHECK_NEW_TOKENS_H
#define ATTILE_CHECK_NEW_TOKENS_H

#include "gen.h"
#include "oracle.h"

struct workload;

/* What attention sees, shaped as the workload's inputs, rounded to their types. Errors are how far a kernel may round elsewhere, since
   it rotates in fp32. Owned. */
struct new_tokens {
    float *q, *k, *v;
    double *q_error, *k_error;
};

/* Of inputs that are there: put NaN where the cache has its new rows before the launch, so that reading them there is seen. */
void new_tokens_hide(struct workload *workload);

/* Make them, and fill `expected` and `allowed` of outputs k_cache and v_cache; -1 in `allowed` = as before. False without memory. Free
   it in any case. */
bool new_tokens_make(struct new_tokens *tokens, const struct workload *workload);
void new_tokens_free(struct new_tokens *tokens);

#endif
