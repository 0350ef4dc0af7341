/* dropout: what a caller says of the weights that are dropped, checked, as kernels take it. */
#ifndef ATTILE_DROPOUT_H
#define ATTILE_DROPOUT_H

#include "arguments.h"

/* Check probability, seed and offset, which must be 0 without knob dropout, and add the tensor that holds the last two. */
enum att_status dropout_read(const struct knobs *knobs, const struct att_attention_args *args,
                             struct arguments *arguments, struct failure *failure);

/* The members that kernels with the knob have, of arguments that dropout_read accepted. */
void dropout_fill(const struct att_attention_args *args, struct attention_params *params);

#endif
