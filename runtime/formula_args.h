/* formula_args: what the mask and the score take at launch (att_param, by name) -> attention_params.param, by number. */
#ifndef ATTILE_FORMULA_ARGS_H
#define ATTILE_FORMULA_ARGS_H

#include "arguments.h"
#include "formulas.h"

/* Bytes of workspace for the tables of bounds (templates/expression/tables_launch.cuh) at these sizes; 0 when the mask needs none.
   Scalars in args are read where the shape of a tensor refers to them. */
enum att_status formula_args_workspace(const struct formula_set *set, const struct att_attention_args *args,
                                       const struct shape *shape, size_t *bytes, struct failure *failure);

/* Where the tables lie; after formula_args_read. */
void formula_args_place_tables(const struct formula_set *set, void *memory, struct arguments *arguments);

/* Check names, types, shapes, strides and that no index can leave its tensor, and fill the parameters that arguments_attention has.
   To be called after arguments_read, which knows the sizes and the outputs. Allocates nothing unless something is
   wrong. */
enum att_status formula_args_read(const struct formula_set *set, const struct att_attention_args *args,
                                  struct arguments *arguments, struct failure *failure);

/* At these sizes, can no index leave its tensor? Of a sequence whose lengths are its own, after formula_args_read. */
enum att_status formula_args_check(const struct formula_set *set, const struct att_attention_args *args,
                                   const struct shape *shape, struct failure *failure);

#endif
