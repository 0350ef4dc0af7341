/* tensor_check: is a strided array possible at all, and do two of them share memory? */
#ifndef ATTILE_TENSOR_CHECK_H
#define ATTILE_TENSOR_CHECK_H

#include "arguments.h"

/* Check pointer, alignment and strides, and set begin and end. */
enum att_status tensor_check(struct tensor *tensor, struct failure *failure);

/* Both checked. By whole address ranges: arrays that interleave without touching count as overlapping. */
enum att_status tensor_check_overlap(const struct tensor *output, const struct tensor *other, struct failure *failure);

#endif
