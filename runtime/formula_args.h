/* formula_args: what the mask and the score take at launch (att_param, by name) -> attention_params.param, by number. */
#ifndef ATTILE_FORMULA_ARGS_H
#define ATTILE_FORMULA_ARGS_H

#include "arguments.h"
#include "formulas.h"

/* Check names, types, shapes, strides and that no index can leave its tensor, and fill arguments->params.attention.param.
   To be called after arguments_read, which knows the sizes and the outputs. Allocates nothing unless something is
   wrong. */
enum att_status formula_args_read(const struct formula_set *set, const struct att_attention_args *args,
                                  struct arguments *arguments, struct failure *failure);

#endif
