#include "scales.h"

#include <inttypes.h>

struct scale {
    const char *name;
    const float *data;
    int64_t batch, head, row; /* strides */
};

static enum att_status check_given(const struct knobs *knobs, const struct scale *scale, bool keys,
                                   struct failure *failure) {
    bool wanted = knobs->kv_scale > kv_scale_none;
    if (wanted && !scale->data && keys)
        return failure_set(
            failure, ATT_INVALID_ARGUMENT,
            "%s is null, expected the scales of an 8-bit cache in device memory; the kernel's problem has "
            "kv_scale=%s",
            scale->name, knob_word_name(KNOB_kv_scale, knobs->kv_scale));
    if (!wanted && scale->data)
        return failure_set(failure, ATT_INVALID_ARGUMENT,
                           "%s is given, and this kernel takes none; problems with dtype_kv=e4m3, e5m2 or int8 and "
                           "kv_scale=tensor, head or token do",
                           scale->name);
    bool strides = scale->batch != 0 || scale->head != 0 || scale->row != 0;
    if (strides && knobs->kv_scale != kv_scale_token)
        return failure_set(failure, ATT_INVALID_ARGUMENT,
                           "%s: strides are %" PRId64 ", %" PRId64 ", %" PRId64
                           ", expected 0: only kv_scale=token has them",
                           scale->name, scale->batch, scale->head, scale->row);
    return ATT_OK;
}

/* Describes the scale as a tensor, and sets the default strides. */
static struct tensor list(const struct knobs *knobs, struct scale *scale, const struct extents *e, int64_t kv_heads) {
    struct tensor tensor = {.name = scale->name, .data = scale->data, .element = (int)sizeof(float)};
    if (knobs->kv_scale != kv_scale_token) {
        scale->head = knobs->kv_scale == kv_scale_head;
        tensor.dims = 1;
        tensor.dim[0].name = scale->head ? "kv_heads" : "one";
        tensor.dim[0].extent = scale->head ? kv_heads : 1;
        tensor.dim[0].step = 1;
        return tensor;
    }
    if (scale->batch == 0 && scale->head == 0 && scale->row == 0) {
        scale->row = 1;
        scale->head = e->size_rows_kv;
        scale->batch = kv_heads * e->size_rows_kv; /* both fit an int */
    }
    if (knobs->layout == layout_ragged && e->size_pages == 1) /* packed: this dimension does not exist */
        scale->batch = 0;
    tensor.dims = 4; /* rows may lie apart, unlike the last dimension of other tensors: arrays of one number */
    tensor.dim[0].name = e->pages, tensor.dim[0].stride = "batch_stride";
    tensor.dim[0].extent = e->size_pages, tensor.dim[0].step = scale->batch;
    tensor.dim[1].name = "kv_heads", tensor.dim[1].stride = "head_stride";
    tensor.dim[1].extent = kv_heads, tensor.dim[1].step = scale->head;
    tensor.dim[2].name = e->rows_kv, tensor.dim[2].stride = "row_stride";
    tensor.dim[2].extent = e->size_rows_kv, tensor.dim[2].step = scale->row;
    tensor.dim[3].name = "one", tensor.dim[3].extent = 1, tensor.dim[3].step = 1;
    return tensor;
}

enum att_status scales_read(const struct knobs *knobs, const struct att_attention_args *args,
                            const struct extents *extents, struct arguments *arguments, struct failure *failure) {
    struct scale scale[] = {
        {"k_scale", args->k_scale, args->k_scale_batch_stride, args->k_scale_head_stride, args->k_scale_row_stride},
        {"v_scale", args->v_scale, args->v_scale_batch_stride, args->v_scale_head_stride, args->v_scale_row_stride}};
    bool keys = knobs->kv_scale != kv_scale_token || (extents->size_rows_kv > 0 && extents->size_pages > 0);
    for (int i = 0; i < 2; i++) {
        if (check_given(knobs, &scale[i], keys, failure) != ATT_OK)
            return failure->status;
        if (knobs->kv_scale > kv_scale_none)
            arguments->tensor[arguments->tensors++] = list(knobs, &scale[i], extents, arguments->shape.kv_heads);
    }
    struct attention_params *params = arguments_attention(arguments);
    params->k_scale = scale[0].data;
    params->k_scale_batch_stride = scale[0].batch;
    params->k_scale_head_stride = scale[0].head;
    params->k_scale_row_stride = scale[0].row;
    params->v_scale = scale[1].data;
    params->v_scale_batch_stride = scale[1].batch;
    params->v_scale_head_stride = scale[1].head;
    params->v_scale_row_stride = scale[1].row;
    return ATT_OK;
}
