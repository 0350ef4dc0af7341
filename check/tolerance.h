/* tolerance: how far a kernel's answer may lie from the oracle's. Bounds are derived from rounding, element by element
   (docs/numerics.md), not fitted to what kernels happen to give: a kernel that computes in less than fp32 fails. */
#ifndef ATTILE_TOLERANCE_H
#define ATTILE_TOLERANCE_H

#include "oracle.h"

/* Element types in the order of knob `dtype_kv` in gen/knobs/knobs.def; then how tensor cores multiply fp32: knob `precision`. */
enum tolerance_type {
    TOLERANCE_FP32,
    TOLERANCE_FP16,
    TOLERANCE_BF16,
    TOLERANCE_E4M3,
    TOLERANCE_E5M2,
    TOLERANCE_INT8,
    TOLERANCE_TF32X3,
    TOLERANCE_TF32
};

/* Of each type: the relative error of one rounding; half the least subnormal, as an error; the largest finite value. */
extern const struct tolerance_rounding { double unit, smallest, largest; } tolerance_roundings[];

/* Roundings that a sum of n terms suffers, in units: n at worst, and with independent errors of mean 0 less than
   6 sqrt(n) but once in 10^7. */
double tolerance_growth(double n);

/* o, lse: the oracle's answer to `problem`. `weights`: what the kernel rounds its weights to before it multiplies them
   with V; tensor cores take 16 bits, or fp32 as TOLERANCE_TF32X3 or TOLERANCE_TF32, and then Q and K likewise. The sum of the weights is always that of the unrounded ones. o_tolerance and lse_tolerance are shaped like them; lse is always fp32.
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

/* y: a rotated row, (head_dim), by oracle_rope_row. y_error: how far fp32 arithmetic may be off, before the result is rounded. */
void tolerance_rope(const struct oracle_rope *rope, int64_t position, const float *x, int64_t head_dim, const double *y,
                    double *y_error);

/* What rounding a number to an element may be off, given what the number itself is off. */
double tolerance_round(enum tolerance_type type, double value, double error);

/* Is `found`, an element of type `output`, right? NaN for NaN, infinity for infinity or for what may round to it. An infinite
   tolerance says that an infinite answer may be NaN, too: the weight of an infinity may be rounded to 0. */
bool tolerance_accepts(enum tolerance_type output, double expected, double found, double tolerance);

#endif
