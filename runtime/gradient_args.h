/* gradient_args: destinations of the gradients of the score's parameters (att_param_gradient, by name) ->
   attention_backward_params.d_param, by number. */
#ifndef ATTILE_GRADIENT_ARGS_H
#define ATTILE_GRADIENT_ARGS_H

#include "arguments.h"
#include "formulas.h"

/* Checks names, sizes, strides and that nothing overlaps, and fills the parameters; a kernel without such gradients has
   no room for them. Call it after formula_args_read, which sets the sizes. Allocates nothing unless it finds an
   error. */
enum att_status gradient_args_read(const struct formula_set *set, const struct att_attention_backward_args *args,
                                   struct arguments *arguments, struct failure *failure);

#endif
