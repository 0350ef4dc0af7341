/* score_error: how far a score that is computed in fp32, step by step as the expression says, may be from its exact
   value. Running error analysis over the tree: each step propagates the errors below it and adds its own rounding. */
#ifndef ATTILE_SCORE_ERROR_H
#define ATTILE_SCORE_ERROR_H

#include "oracle.h"

/* Returns the absolute error of a score. Its scaled product s is known to within error_of_s; an infinite s is exact: an
   element of Q or K is infinite, and so it is in fp32. The result is very large where the expression jumps between
   possible values, or divides by what may be 0. `folded`: the kernel uses tensor cores, and folds scores of certain
   forms into its exponentials. */
double score_error(const struct oracle_attention *problem, int64_t b, int64_t h, int64_t query, int64_t key, double s,
                   double error_of_s, bool folded);

/* The same for another formula of s: the derivative of the score. */
double derivative_error(const struct oracle_attention *problem, const struct formula *derivative, int64_t b, int64_t h,
                        int64_t query, int64_t key, double s, double error_of_s);

#endif
