/* oracle_backward: reference gradients in double precision, from their formulas, pair by pair. Shares no code with the
   kernels; slow on purpose. tests/test_oracle_backward.c compares it with finite differences of the forward oracle. */
#ifndef ATTILE_ORACLE_BACKWARD_H
#define ATTILE_ORACLE_BACKWARD_H

#include "oracle.h"

struct oracle_backward {
    const struct oracle_attention *forward;
    const struct formula *derivative; /* d forward->score / d s (formula_slope); null if forward->score is null */
    const double *o, *lse;            /* of the forward pass, as the kernel gets them; shapes as in oracle_attention */
    const float *d_o;                 /* gradient with respect to o, same shape */
    const float *d_lse;               /* gradient with respect to lse, same shape; null = 0 */
    /* What forward->score reads (formula_reads_find) of the parameters whose gradients are wanted, and the scope of
       these parameters. Null = none. */
    const struct formula_reads *reads;
    const struct formula_scope *scope;
    /* For the tolerance: the kernel computes dS from a P that is already rounded to 16 bits, and adds a dS rounded to
       16 bits to the gradients of what the score reads. */
    bool d_s_from_rounded, reads_from_rounded;
};

/* Shaped like q, k, v, forward->sinks and the parameters of the score. Each number is a gradient or a bound of its
   error. Null = not wanted. */
struct oracle_gradients {
    double *dq, *dk, *dv;
    double *d_sinks; /* unchanged if forward->sinks is null */
    double *d_param[FORMULA_PARAMS];
};

/* dV = P^T dO, dS = P * (dO V^T - D) * score', D = row sum of dO * O - dLSE, dQ = scale dS K, dK = scale dS^T Q; dK and
   dV are summed over the query heads that share them. The gradient of what the score reads is the sum of
   P * (dO V^T - D) times the derivative of the score with respect to it. Pairs that the mask hides add nothing, and
   neither does a P or a dS of 0, whatever its factor is. */
void oracle_backward(const struct oracle_backward *problem, const struct oracle_gradients *gradients);

/* Returns the derivative of the score of the pair, given its scaled product s. */
double oracle_derivative(const struct oracle_backward *problem, int64_t b, int64_t h, int64_t query, int64_t key,
                         double s);

/* oracle_param_count: number of elements of a parameter. oracle_place: index of the element that a read accesses for
   `env`. `sizes` determines the size of the parameter: it has the maximum numbers of queries and keys, while `env` has
   those of a sequence. */
int64_t oracle_param_count(const struct formula_scope *scope, int param, const struct formula_env *env);
int64_t oracle_place(const struct formula_scope *scope, const struct formula_read *read,
                     const struct formula_env *sizes, const struct formula_env *env);

#endif
