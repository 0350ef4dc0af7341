/* scales: the factors of the elements of 8-bit K and V (problem knob kv_scale), for attention. */
#ifndef ATTILE_SCALES_H
#define ATTILE_SCALES_H

#include "sequences.h"

/* Checks k_scale and v_scale, adds them as tensors to `arguments` and fills its parameters. `extents`: those of K and
   V. */
enum att_status scales_read(const struct knobs *knobs, const struct att_attention_args *args,
                            const struct extents *extents, struct arguments *arguments, struct failure *failure);

#endif
