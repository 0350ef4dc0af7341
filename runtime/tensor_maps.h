/* tensor_maps: the parameters of kernels that copy their tensors in boxes: the maps in the order of the plan, then the
   family's own. */
#ifndef ATTILE_TENSOR_MAPS_H
#define ATTILE_TENSOR_MAPS_H

#include "arguments.h"
#include "backend.h"

#include <stdalign.h>

#include "params/tensor_map.h"

/* Can a kernel with tensor maps take these arguments: addresses and strides in multiples of 16 bytes? Otherwise
   ATT_INVALID_ARGUMENT; `failure` may be null. */
enum att_status tensor_maps_check(const struct arguments *arguments, struct failure *failure);

/* Maps fill the places before the family's parameters, so that what a kernel takes is one piece, however many there are. */
struct mapped_params {
    struct tensor_map map[PLAN_MAPS];
    union {
        struct attention_params attention;
        struct attention_backward_params backward;
    };
};
static inline void *mapped_params_begin(struct mapped_params *params, const struct plan *plan) {
    return &params->map[PLAN_MAPS - plan->maps];
}

/* As large as the kernel knows the struct, of whose own parameters there are params_size bytes. */
size_t mapped_params_size(const struct plan *plan, size_t params_size);

/* Describe the tensors that the plan names, of arguments that were checked, and copy the other parameters behind them. */
enum att_status tensor_maps_fill(const struct backend_type *type, struct backend *backend, const struct plan *plan,
                                 const struct knobs *knobs, const struct arguments *arguments,
                                 struct mapped_params *params, struct failure *failure);

#endif
