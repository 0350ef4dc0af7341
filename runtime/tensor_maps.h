/* tensor_maps: the parameters of kernels that copy their tensors in boxes: the maps in the order of the plan, followed
   by the family's own parameters. */
#ifndef ATTILE_TENSOR_MAPS_H
#define ATTILE_TENSOR_MAPS_H

#include "arguments.h"
#include "backend.h"

#include <stdalign.h>

#include "params/tensor_map.h"

/* Checks that a kernel with tensor maps can take these arguments: addresses and strides are multiples of 16 bytes.
   Otherwise ATT_INVALID_ARGUMENT; `failure` may be null. */
enum att_status tensor_maps_check(const struct arguments *arguments, struct failure *failure);

/* Maps directly precede the family's parameters, so that a kernel's parameters are contiguous, however many maps there
   are. */
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

/* Size of the struct as the kernel sees it, with params_size bytes of the family's own parameters. */
size_t mapped_params_size(const struct plan *plan, size_t params_size);

/* Encodes maps of the tensors that the plan names, from checked arguments, and copies the other parameters after
   them. */
enum att_status tensor_maps_fill(const struct backend_type *type, struct backend *backend, const struct plan *plan,
                                 const struct knobs *knobs, const struct arguments *arguments,
                                 struct mapped_params *params, struct failure *failure);

#endif
