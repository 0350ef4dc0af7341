/* tolerance_backward: how far a kernel's gradients may lie from the oracle's; derived in docs/numerics.md. */
#ifndef ATTILE_TOLERANCE_BACKWARD_H
#define ATTILE_TOLERANCE_BACKWARD_H

#include "oracle_backward.h"
#include "tolerance.h"

/* `expected`: the oracle's answer. `weights`: the type to which the kernel rounds P and dS before it multiplies them.
   `bound` receives the largest absolute error of each element; d_sinks are fp32. False when memory runs out. */
bool tolerance_backward(const struct oracle_backward *problem, enum tolerance_type weights, enum tolerance_type output,
                        const struct oracle_gradients *expected, const struct oracle_gradients *bound);

#endif
