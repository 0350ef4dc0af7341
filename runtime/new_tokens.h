/* new_tokens: K and V of new tokens that an attention launch writes into the cache (problem knob append), with the
   rotation of Q and K (rope). */
#ifndef ATTILE_NEW_TOKENS_H
#define ATTILE_NEW_TOKENS_H

#include "sequences.h"

/* Checks that they are given if the problem has them, and only then; sets the parameters of the kernel. K and V become
   outputs. Appends the new rows and tables to the tensors of `arguments`, which arguments_read checks like all others.
   Call it after Q, K, V and O have been read. */
enum att_status new_tokens_read(const struct knobs *knobs, const struct att_attention_args *args,
                                const struct extents *extents, struct arguments *arguments, struct failure *failure);

#endif
