/* score_error: how far a score that is computed in fp32, step by step as the expression says, may be from its exact value.
   Running error analysis over the tree: each step adds its own rounding to what it makes of the errors below it. */
#ifndef ATTILE_SCORE_ERROR_H
#define ATTILE_SCORE_ERROR_H

#include "oracle.h"

/* The scaled product is s, known to within error_of_s; an infinite one is exact: an element of Q or K is infinite, and fp32 has it,
   too. Absolute error; very large where the expression jumps between the values that are possible, or divides by what may be 0.
   `folded`: the kernel is one for tensor cores, and folds scores of certain forms into its exponentials. */
double score_error(const struct oracle_attention *problem, int64_t b, int64_t h, int64_t query, int64_t key, double s,
                   double error_of_s, bool folded);

/* The same of another formula of s: the derivative of the score. */
double derivative_error(const struct oracle_attention *problem, const struct formula *derivative, int64_t b, int64_t h,
                        int64_t query, int64_t key, double s, double error_of_s);

#endif
