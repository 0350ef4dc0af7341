/* tolerance: how far a kernel's answer may lie from the oracle's. The bounds are derived from rounding, element by
   element (docs/numerics.md), not fitted to the results of kernels: a kernel that computes in less than fp32 fails. */
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

/* For each type: the relative error of one rounding; half the smallest subnormal, as an error; the largest finite
   value. */
extern const struct tolerance_rounding { double unit, smallest, largest; } tolerance_roundings[];

/* Bounds the roundings of a sum of n terms, in units: at worst n; with independent errors of mean 0 less than 6
   sqrt(n), except once in 10^7. */
double tolerance_growth(double n);

/* o, lse: the oracle's answer to `problem`. `weights`: the type to which the kernel rounds its weights before it
   multiplies them with V. Tensor cores take 16 bits, or fp32 as TOLERANCE_TF32X3 or TOLERANCE_TF32, and then Q and K
   likewise. The kernel always sums the unrounded weights. o_tolerance and lse_tolerance are shaped like o and lse; lse
   is always fp32. False when memory runs out (one row is needed). */
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

/* y: a row rotated by oracle_rope_row, (head_dim). y_error: error of fp32 arithmetic, before the result is rounded. */
void tolerance_rope(const struct oracle_rope *rope, int64_t position, const float *x, int64_t head_dim, const double *y,
                    double *y_error);

/* Returns the error of a number rounded to an element, given the error of the number itself. */
double tolerance_round(enum tolerance_type type, double value, double error);

/* True if `found`, an element of type `output`, is right: NaN for NaN, infinity for infinity or for what may round to
   it. An infinite tolerance means that an infinite answer may also be NaN: the weight of an infinity may round to 0. */
bool tolerance_accepts(enum tolerance_type output, double expected, double found, double tolerance);

#endif
