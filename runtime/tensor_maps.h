/* tensor_maps: the parameters of kernels that copy their tensors in boxes: a tensor map for each, then the usual ones. */
#ifndef ATTILE_TENSOR_MAPS_H
#define ATTILE_TENSOR_MAPS_H

#include "arguments.h"
#include "backend.h"

#include <stdalign.h>

#include "params/attention_tma.h"

/* Can a kernel with tensor maps take these arguments: addresses and strides in multiples of 16 bytes, groups of
   heads that fit its boxes? Otherwise ATT_INVALID_ARGUMENT; `failure` may be null. */
enum att_status tensor_maps_check(const struct plan *plan, const struct arguments *arguments, struct failure *failure);

/* Describe the tensors that the plan names, of arguments that were checked, and copy the other parameters behind them.
   Maps that the plan does not name are zero. */
enum att_status tensor_maps_fill(const struct backend_type *type, struct backend *backend, const struct plan *plan,
                                 const struct knobs *knobs, const struct arguments *arguments,
                                 struct attention_tma_params *params, struct failure *failure);

#endif
