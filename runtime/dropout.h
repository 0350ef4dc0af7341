/* dropout: checks the caller's dropout arguments and converts them for the kernels. */
#ifndef ATTILE_DROPOUT_H
#define ATTILE_DROPOUT_H

#include "arguments.h"

/* Checks probability, seed and offset, which must be 0 without knob dropout, and adds the tensor that holds the last
   two. */
enum att_status dropout_read(const struct knobs *knobs, const struct att_attention_args *args,
                             struct arguments *arguments, struct failure *failure);

/* Sets the members that kernels with the knob have, from arguments that dropout_read accepted. */
void dropout_fill(const struct att_attention_args *args, struct attention_params *params);

#endif
