/* new_tokens: K and V of new tokens that a launch of attention writes into the cache (problem knob append), with the rotation of Q and
   K (rope). */
#ifndef ATTILE_NEW_TOKENS_H
#define ATTILE_NEW_TOKENS_H

#include "sequences.h"

/* Check that they are given where the problem has them, and only there; set the parameters of the kernel. K and V become outputs. The
   new rows and tables stand behind the tensors of `arguments`, which arguments_read checks as it does all. After Q, K, V and O have
   been read. */
enum att_status new_tokens_read(const struct knobs *knobs, const struct att_attention_args *args,
                                const struct extents *extents, struct arguments *arguments, struct failure *failure);

#endif
