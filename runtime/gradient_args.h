/* gradient_args: where the gradients of what a score reads go (att_param_gradient, by name) -> attention_backward_params.d_param,
   by number. */
#ifndef ATTILE_GRADIENT_ARGS_H
#define ATTILE_GRADIENT_ARGS_H

#include "arguments.h"
#include "formulas.h"

/* Check names, sizes, strides and that nothing overlaps, and fill the parameters; a kernel that wants no such gradient has no room
   for them. After formula_args_read, which knows the sizes. Allocates nothing unless something is wrong. */
enum att_status gradient_args_read(const struct formula_set *set, const struct att_attention_backward_args *args,
                                   struct arguments *arguments, struct failure *failure);

#endif
