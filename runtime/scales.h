/* scales: what elements of K and V of 8 bits are multiplied with (problem knob kv_scale), as attention takes it. */
#ifndef ATTILE_SCALES_H
#define ATTILE_SCALES_H

#include "sequences.h"

/* Checks k_scale and v_scale, lists them as tensors of `arguments` and fills its parameters. `extents`: those of K and V. */
enum att_status scales_read(const struct knobs *knobs, const struct att_attention_args *args,
                            const struct extents *extents, struct arguments *arguments, struct failure *failure);

#endif
