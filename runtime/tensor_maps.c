#include "tensor_maps.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

_Static_assert(sizeof(struct tensor_map) == MAP_BYTES && alignof(struct tensor_map) == MAP_ALIGNMENT,
               "as backends fill");
_Static_assert(PLAN_Q == 0 && PLAN_O == 3 && PLAN_D_O == 4, "the order of the arguments' tensors");
_Static_assert(offsetof(struct mapped_params, attention) == PLAN_MAPS * MAP_BYTES, "one piece");

enum { ALIGNMENT = 16, BATCH = 0, HEADS = 1, ROWS = 2, COLS = 3, DIMS = 4 }; /* bytes; dimensions of struct tensor */
static const int64_t stride_most = (int64_t)1 << 40;                         /* bytes, exclusive */

static enum att_status check_stride(const struct tensor *tensor, int dim, struct failure *failure) {
    int64_t step = tensor->dim[dim].step;
    if (step * tensor->element % ALIGNMENT)
        return failure_set(
            failure, ATT_INVALID_ARGUMENT,
            "%s: %s is %" PRId64 " elements of %d bytes, expected a multiple of %d bytes: this kernel "
            "copies in boxes; alignment=1 in a problem without a schedule finds one that takes any stride",
            tensor->name, tensor->dim[dim].stride, step, tensor->element, ALIGNMENT);
    if (step >= stride_most / tensor->element)
        return failure_set(failure, ATT_INVALID_ARGUMENT,
                           "%s: %s is %" PRId64 " elements of %d bytes, expected less than 2^40 bytes", tensor->name,
                           tensor->dim[dim].stride, step, tensor->element);
    return ATT_OK;
}

/* True if this dimension's stride matters. With a single element it is never used, and may have any value. */
static bool is_stepped(const struct tensor *tensor, int dim) {
    return tensor->begin != tensor->end && tensor->dim[dim].extent > 1 && dim != COLS;
}

static enum att_status check_tensor(const struct tensor *tensor, struct failure *failure) {
    if (tensor->begin != tensor->end && tensor->begin % ALIGNMENT)
        return failure_set(failure, ATT_INVALID_ARGUMENT,
                           "%s: address %p is not aligned to %d bytes: this kernel copies in boxes; "
                           "alignment=1 in a problem without a schedule finds one that takes any address",
                           tensor->name, tensor->data, ALIGNMENT);
    for (int dim = BATCH; dim <= COLS; dim++)
        if (is_stepped(tensor, dim) && check_stride(tensor, dim, failure) != ATT_OK)
            return ATT_INVALID_ARGUMENT;
    return ATT_OK;
}

enum att_status tensor_maps_check(const struct arguments *arguments, struct failure *failure) {
    for (int i = 0; i < plan_tensors_of(arguments->family);
         i++) /* also O without a map: it is then written in vectors */
        if (check_tensor(&arguments->tensor[i], failure) != ATT_OK)
            return ATT_INVALID_ARGUMENT;
    return ATT_OK;
}

/* `tensor` has been checked: sizes fit an int, strides are not negative. An empty one is described as having one
   element at a null address: no kernel reads it. */
static void make_request(const struct tensor *tensor, const struct plan_map *map, int dtype, int packed_heads,
                         struct map_request *request) {
    static const int order[DIMS] = {COLS, ROWS, HEADS, BATCH};
    bool empty = tensor->begin == tensor->end;
    *request =
        (struct map_request){.data = empty ? NULL : tensor->data, .dtype = dtype, .box = {map->cols, map->rows, 1}};
    if (map->packed) {
        request->box[1] = map->rows / packed_heads;
        request->box[2] = packed_heads;
    }
    for (int i = 0; i < DIMS; i++) {
        int64_t extent = tensor->dim[order[i]].extent, step = tensor->dim[order[i]].step;
        request->dim[i] = extent > 0 ? extent : 1;
        if (i > 0)
            request->stride[i - 1] = is_stepped(tensor, order[i]) ? step : ALIGNMENT / tensor->element;
    }
}

/* --- recently made maps ------------------------------------------------------------------------------------------- */

/* Encoding a tensor map in the driver takes longer than all the rest of a launch, and programs launch the same kernels
   on the same tensors again and again. So each thread keeps its last maps: one for each of a few addresses and places
   in a plan. A map depends only on the request, so one made for a closed session is equally valid. */
enum { KEPT_BITS = 8, KEPT = 1 << KEPT_BITS };
struct kept_map {
    const struct backend *backend; /* null = none */
    struct map_request request;
    struct tensor_map map;
};

static bool same_request(const struct map_request *a, const struct map_request *b) {
    return a->data == b->data && a->dtype == b->dtype && memcmp(a->dim, b->dim, sizeof a->dim) == 0 &&
           memcmp(a->stride, b->stride, sizeof a->stride) == 0 && memcmp(a->box, b->box, sizeof a->box) == 0;
}

static enum att_status encode(const struct backend_type *type, struct backend *backend, int place,
                              const struct map_request *request, struct tensor_map *map, struct failure *failure) {
    static _Thread_local struct kept_map kept[KEPT];
    uint64_t hash = ((uint64_t)(uintptr_t)request->data + (uint64_t)place) * 0x9e3779b97f4a7c15u;
    struct kept_map *slot = &kept[hash >> (64 - KEPT_BITS)];
    if (slot->backend != backend || !same_request(&slot->request, request)) {
        slot->backend = NULL;
        if (type->encode_map(backend, request, &slot->map, failure) != ATT_OK)
            return failure->status;
        slot->backend = backend;
        slot->request = *request;
    }
    *map = slot->map;
    return ATT_OK;
}

size_t mapped_params_size(const struct plan *plan, size_t params_size) {
    size_t size = (size_t)plan->maps * MAP_BYTES + params_size;
    return (size + MAP_ALIGNMENT - 1) / MAP_ALIGNMENT * MAP_ALIGNMENT;
}

enum att_status tensor_maps_fill(const struct backend_type *type, struct backend *backend, const struct plan *plan,
                                 const struct knobs *knobs, const struct arguments *arguments,
                                 struct mapped_params *params, struct failure *failure) {
    struct tensor_map *maps = mapped_params_begin(params, plan);
    if (knobs->family == family_attention_forward)
        params->attention = arguments->params.attention;
    else if (knobs->family == family_attention_backward)
        memcpy(&params->backward, (const char *)&arguments->params + arguments->params_begin, arguments->params_size);
    else
        return failure_set(failure, ATT_INTERNAL, "family %d has no tensor maps", knobs->family);
    for (int i = 0; i < plan->maps; i++) {
        const struct tensor *tensor = &arguments->tensor[plan->map[i].tensor];
        struct map_request request;
        make_request(tensor, &plan->map[i], tensor->output ? knobs->dtype_out : knobs->dtype,
                     (int)shape_packed_heads(&arguments->shape), &request);
        if (encode(type, backend, i, &request, &maps[i], failure) != ATT_OK)
            return failure->status;
    }
    return ATT_OK;
}
