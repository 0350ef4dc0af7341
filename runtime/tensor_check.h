/* tensor_check: checks whether a strided array is possible at all, and whether two of them share memory. */
#ifndef ATTILE_TENSOR_CHECK_H
#define ATTILE_TENSOR_CHECK_H

#include "arguments.h"

/* Checks pointer, alignment and strides, and sets begin and end. */
enum att_status tensor_check(struct tensor *tensor, struct failure *failure);

/* Both must have been checked. Compares whole address ranges: arrays that interleave without touching count as
   overlapping. */
enum att_status tensor_check_overlap(const struct tensor *output, const struct tensor *other, struct failure *failure);

#endif
