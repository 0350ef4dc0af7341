/* oracle_backward: the right gradients, in double precision, by their formulas, pair by pair. Shares no code with the kernels;
   slow on purpose. tests/test_oracle_backward.c holds it against differences of the forward oracle. */
#ifndef ATTILE_ORACLE_BACKWARD_H
#define ATTILE_ORACLE_BACKWARD_H

#include "oracle.h"

struct oracle_backward {
    const struct oracle_attention *forward;
    const struct formula *derivative; /* of forward->score by s (formula_slope); null where that is null */
    const double *o, *lse; /* of the forward pass, as the kernel is given them; shaped as in oracle_attention */
    const float *d_o;      /* gradient by o, shaped like it */
    const float *d_lse;    /* gradient by lse, shaped like it; null = 0 */
    /* What forward->score reads (formula_reads_find), of the parameters of which gradients are wanted, and their scope. Null = none. */
    const struct formula_reads *reads;
    const struct formula_scope *scope;
    /* For the tolerance: the kernel takes dS from a P that is rounded to 16 bits already, and adds to the gradients of what the score
       reads a dS that is. */
    bool d_s_from_rounded, reads_from_rounded;
};

/* Shaped like q, k, v, forward->sinks and the parameters of the score. One number each, the gradient or a bound of its error.
   Null = not wanted. */
struct oracle_gradients {
    double *dq, *dk, *dv;
    double *d_sinks; /* not touched where forward->sinks is null */
    double *d_param[FORMULA_PARAMS];
};

/* dV = P^T dO, dS = P * (dO V^T - D) * score', D = row sum of dO * O - dLSE, dQ = scale dS K, dK = scale dS^T Q; dK and dV summed
   over the heads that share one. What the score reads gets the sum of P * (dO V^T - D) times the slope of the score by it. Pairs that
   are not seen add nothing, and neither does a P or a dS of 0, whatever it is multiplied with. */
void oracle_backward(const struct oracle_backward *problem, const struct oracle_gradients *gradients);

/* What the derivative of the score is for the two, which have this scaled product. */
double oracle_derivative(const struct oracle_backward *problem, int64_t b, int64_t h, int64_t query, int64_t key,
                         double s);

/* Elements of a parameter, and which of them a read is, for what `env` says. `sizes` says how large the parameter is: it knows the most
   queries and keys, where `env` knows those of a sequence. */
int64_t oracle_param_count(const struct formula_scope *scope, int param, const struct formula_env *env);
int64_t oracle_place(const struct formula_scope *scope, const struct formula_read *read,
                     const struct formula_env *sizes, const struct formula_env *env);

#endif
