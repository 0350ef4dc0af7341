/* tolerance: how far a kernel's answer may lie from the oracle's. Bounds are derived from rounding, element by element
   (docs/numerics.md), not fitted to what kernels happen to give: a kernel that computes in less than fp32 fails. */
#ifndef ATTILE_TOLERANCE_H
#define ATTILE_TOLERANCE_H

#include "oracle.h"

/* Element types in the order of knob `dtype` in gen/knobs/knobs.def. */
enum tolerance_type { TOLERANCE_FP32, TOLERANCE_FP16, TOLERANCE_BF16 };

/* o, lse: the oracle's answer to `problem`. `weights`: what the kernel rounds its weights to before it multiplies them
   with V; tensor cores take 16 bits. The sum of the weights is always that of the unrounded ones. o_tolerance and lse_tolerance are shaped like them; lse is always fp32.
   False when memory runs out (one row is needed). */
bool tolerance_attention(const struct oracle_attention *problem, enum tolerance_type weights,
                         enum tolerance_type output, const double *o, const double *lse, double *o_tolerance,
                         double *lse_tolerance);

/* y: the oracle's answer, (rows, cols). */
bool tolerance_softmax(const float *x, int64_t rows, int64_t cols, enum tolerance_type output, const double *y,
                       double *y_tolerance);

/* o, lse: the oracle's answer; shapes as in oracle_merge. */
bool tolerance_merge(const float *o_parts, const float *lse_parts, int64_t parts, int64_t rows, int64_t head_dim_v,
                     enum tolerance_type output, const double *o, const double *lse, double *o_tolerance,
                     double *lse_tolerance);

/* Is `found`, an element of type `output`, right? NaN for NaN, infinity for infinity or for what may round to it. An infinite
   tolerance says that an infinite answer may be NaN, too: the weight of an infinity may be rounded to 0. */
bool tolerance_accepts(enum tolerance_type output, double expected, double found, double tolerance);

#endif
