/* formula_args: launch arguments of the mask and the score (att_param, by name) -> attention_params.param, by
   number. */
#ifndef ATTILE_FORMULA_ARGS_H
#define ATTILE_FORMULA_ARGS_H

#include "arguments.h"
#include "formulas.h"

/* Computes the bytes of workspace for the tables of bounds (templates/expression/tables_launch.cuh) at these sizes; 0
   if the mask needs none. Reads the scalars in args that the shape of a tensor refers to. */
enum att_status formula_args_workspace(const struct formula_set *set, const struct att_attention_args *args,
                                       const struct shape *shape, size_t *bytes, struct failure *failure);

/* Sets the addresses of the tables; call it after formula_args_read. */
void formula_args_place_tables(const struct formula_set *set, void *memory, struct arguments *arguments);

/* Checks names, types, shapes, strides and that no index can leave its tensor, and fills the parameters in
   arguments_attention. Call it after arguments_read, which sets the sizes and the outputs. Allocates nothing unless it
   finds an error. */
enum att_status formula_args_read(const struct formula_set *set, const struct att_attention_args *args,
                                  struct arguments *arguments, struct failure *failure);

/* Checks that at these sizes no index can leave its tensor. For a sequence with lengths of its own; call it after
   formula_args_read. */
enum att_status formula_args_check(const struct formula_set *set, const struct att_attention_args *args,
                                   const struct shape *shape, struct failure *failure);

#endif
