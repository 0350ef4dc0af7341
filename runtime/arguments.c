#include "arguments.h"
#include "tensor_check.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>

static int element_size(int dtype) { return dtype == dtype_fp32 ? 4 : 2; }

/* Kernels hold most sizes in an int, and step through them by a tile: the last step must not overflow. */
enum { SIZE_MOST = INT_MAX - 1023 };

static enum att_status check_size(enum shape_id id, int64_t value, int64_t most, struct failure *failure) {
    const struct shape_info *info = &shape_table[id];
    if (value >= info->least && value <= most)
        return ATT_OK;
    return failure_set(failure, ATT_INVALID_ARGUMENT, "%s is %" PRId64 ", expected %" PRId64 " to %" PRId64 " (%s)",
                       info->name, value, info->least, most, info->about);
}

static enum att_status check_sizes(const struct shape *shape, int family, struct failure *failure) {
    int64_t most = family == family_softmax ? INT64_MAX : SIZE_MOST;
    for (int id = 0; id < SHAPE_COUNT; id++)
        if (shape_table[id].families >> family & 1 &&
            check_size((enum shape_id)id, shape_get(shape, (enum shape_id)id), most, failure) != ATT_OK)
            return failure->status;
    return ATT_OK;
}

static enum att_status check_family(const struct knobs *knobs, enum att_family found, struct failure *failure) {
    _Static_assert(ATT_SOFTMAX == family_softmax + 1 && ATT_ATTENTION_FORWARD == family_attention_forward + 1 &&
                       ATT_MERGE == family_merge + 1,
                   "0 is none");
    int expected = knobs->family + 1;
    if ((int)found == expected)
        return ATT_OK;
    return failure_set(failure, ATT_INVALID_ARGUMENT, "args.family is %d, expected %d (%s), the family of the kernel",
                       (int)found, expected, knob_word_name(KNOB_family, knobs->family));
}

/* --- attention_forward ------------------------------------------------------------------------------------------- */

/* What the kernel has for constants. */
static enum att_status check_fixed(const struct knobs *knobs, const struct shape *shape, struct failure *failure) {
    for (int i = 0; i < FIXED_SIZES; i++) {
        int fixed = knob_get(knobs, fixed_sizes[i].knob);
        int64_t size = shape_get(shape, fixed_sizes[i].shape);
        const char *name = shape_table[fixed_sizes[i].shape].name;
        if (fixed > 0 && size != fixed)
            return failure_set(failure, ATT_INVALID_ARGUMENT,
                               "%s is %" PRId64 ", expected %d, which this kernel has as a constant; find one without "
                               "fixed_%s for other sizes",
                               name, size, fixed, name);
    }
    return ATT_OK;
}

static enum att_status read_attention_sizes(const struct knobs *knobs, const struct att_attention_args *args,
                                            struct shape *shape, bool *empty, struct failure *failure) {
    *shape = (struct shape){.batch = args->batch,
                            .heads = args->heads,
                            .kv_heads = args->kv_heads ? args->kv_heads : args->heads,
                            .len_q = args->len_q,
                            .len_kv = args->len_kv};
    *empty = shape->len_q == 0;
    if (check_sizes(shape, family_attention_forward, failure) != ATT_OK)
        return failure->status;
    if (shape->heads % shape->kv_heads)
        return failure_set(failure, ATT_INVALID_ARGUMENT,
                           "kv_heads is %" PRId64 ", expected a divisor of heads, which is %" PRId64, shape->kv_heads,
                           shape->heads);
    return check_fixed(knobs, shape, failure);
}

static struct tensor tensor_4d(const char *name, const struct att_tensor *from, const struct knobs *knobs, bool output,
                               const char *const names[4], const int64_t extents[4]) {
    struct tensor tensor = {.name = name,
                            .data = from->data,
                            .element = element_size(output ? knobs->dtype_out : knobs->dtype),
                            .output = output,
                            .dims = 4,
                            .dim = {{.stride = "batch_stride", .step = from->batch_stride},
                                    {.stride = "head_stride", .step = from->head_stride},
                                    {.stride = "row_stride", .step = from->row_stride}}};
    for (int i = 0; i < 4; i++) {
        tensor.dim[i].name = names[i];
        tensor.dim[i].extent = extents[i];
    }
    return tensor;
}

/* (batch, heads, len_q) floats; strides of zero mean contiguous. */
static struct tensor tensor_lse(float *data, int64_t *batch_stride, int64_t *head_stride, const struct shape *shape) {
    if (*batch_stride == 0 && *head_stride == 0) {
        *head_stride = shape->len_q;
        *batch_stride = shape->heads * shape->len_q; /* both fit an int */
    }
    return (struct tensor){.name = "lse",
                           .data = data,
                           .element = (int)sizeof(float),
                           .output = true,
                           .dims = 3,
                           .dim = {{"batch", "lse_batch_stride", shape->batch, *batch_stride},
                                   {"heads", "lse_head_stride", shape->heads, *head_stride},
                                   {"len_q", NULL, shape->len_q, 1}}};
}

/* 0 is the default, ATT_SCALE_ZERO is 0. */
static float scale_of(const struct knobs *knobs, float scale) {
    if (scale != 0)
        return scale;
    return signbit(scale) ? 0 : (float)(1 / sqrt(knobs->head_dim));
}

static enum att_status read_attention(const struct knobs *knobs, const struct att_attention_args *args,
                                      struct arguments *out, struct failure *failure) {
    if (read_attention_sizes(knobs, args, &out->shape, &out->empty, failure) != ATT_OK)
        return failure->status;
    if (!isfinite(args->scale))
        return failure_set(failure, ATT_INVALID_ARGUMENT, "scale is %f, expected a finite number; 0 = 1/sqrt(head_dim)",
                           (double)args->scale);
    const struct shape *s = &out->shape;
    static const char *const q_names[] = {"batch", "heads", "len_q", "head_dim"};
    static const char *const k_names[] = {"batch", "kv_heads", "len_kv", "head_dim"};
    static const char *const v_names[] = {"batch", "kv_heads", "len_kv", "head_dim_v"};
    static const char *const o_names[] = {"batch", "heads", "len_q", "head_dim_v"};
    const int64_t q[] = {s->batch, s->heads, s->len_q, knobs->head_dim};
    const int64_t k[] = {s->batch, s->kv_heads, s->len_kv, knobs->head_dim};
    const int64_t v[] = {s->batch, s->kv_heads, s->len_kv, knobs->head_dim_v};
    const int64_t o[] = {s->batch, s->heads, s->len_q, knobs->head_dim_v};
    int64_t lse_batch_stride = args->lse_batch_stride, lse_head_stride = args->lse_head_stride;
    struct tensor lse = tensor_lse(args->lse, &lse_batch_stride, &lse_head_stride, s);
    out->tensor[out->tensors++] = tensor_4d("q", &args->q, knobs, false, q_names, q);
    out->tensor[out->tensors++] = tensor_4d("k", &args->k, knobs, false, k_names, k);
    out->tensor[out->tensors++] = tensor_4d("v", &args->v, knobs, false, v_names, v);
    out->tensor[out->tensors++] = tensor_4d("o", &args->o, knobs, true, o_names, o);
    if (args->lse)
        out->tensor[out->tensors++] = lse;
    bool formulas = knobs->mask == mask_custom_mask || knobs->score == score_custom_score || knobs->sinks > 0;
    out->params_size = formulas ? sizeof out->params.attention : offsetof(struct attention_params, param);
    out->params.attention = (struct attention_params){
        .q = args->q.data,
        .k = args->k.data,
        .v = args->v.data,
        .o = args->o.data,
        .lse = args->lse,
        .q_batch_stride = args->q.batch_stride,
        .q_head_stride = args->q.head_stride,
        .q_row_stride = args->q.row_stride,
        .k_batch_stride = args->k.batch_stride,
        .k_head_stride = args->k.head_stride,
        .k_row_stride = args->k.row_stride,
        .v_batch_stride = args->v.batch_stride,
        .v_head_stride = args->v.head_stride,
        .v_row_stride = args->v.row_stride,
        .o_batch_stride = args->o.batch_stride,
        .o_head_stride = args->o.head_stride,
        .o_row_stride = args->o.row_stride,
        .lse_batch_stride = lse_batch_stride,
        .lse_head_stride = lse_head_stride,
        .batch = (int)s->batch,
        .heads = (int)s->heads,
        .kv_heads = (int)s->kv_heads,
        .len_q = (int)s->len_q,
        .len_kv = (int)s->len_kv,
        .scale = scale_of(knobs, args->scale),
    };
    return ATT_OK;
}

/* --- softmax ----------------------------------------------------------------------------------------------------- */

static enum att_status read_softmax_sizes(const struct att_softmax_args *args, struct shape *shape, bool *empty,
                                          struct failure *failure) {
    *shape = (struct shape){.rows = args->rows, .cols = args->cols};
    *empty = shape->rows == 0 || shape->cols == 0;
    return check_sizes(shape, family_softmax, failure);
}

static enum att_status read_softmax(const struct knobs *knobs, const struct att_softmax_args *args,
                                    struct arguments *out, struct failure *failure) {
    if (read_softmax_sizes(args, &out->shape, &out->empty, failure) != ATT_OK)
        return failure->status;
    const struct shape *s = &out->shape;
    out->tensor[out->tensors++] =
        (struct tensor){.name = "x",
                        .data = args->x,
                        .element = element_size(knobs->dtype),
                        .dims = 2,
                        .dim = {{"rows", "x_row_stride", s->rows, args->x_row_stride}, {"cols", NULL, s->cols, 1}}};
    out->tensor[out->tensors++] =
        (struct tensor){.name = "y",
                        .data = args->y,
                        .element = element_size(knobs->dtype_out),
                        .output = true,
                        .in_place = true,
                        .dims = 2,
                        .dim = {{"rows", "y_row_stride", s->rows, args->y_row_stride}, {"cols", NULL, s->cols, 1}}};
    out->params_size = sizeof out->params.softmax;
    out->params.softmax = (struct softmax_params){.x = args->x,
                                                  .y = args->y,
                                                  .x_row_stride = args->x_row_stride,
                                                  .y_row_stride = args->y_row_stride,
                                                  .rows = s->rows,
                                                  .cols = s->cols};
    return ATT_OK;
}

/* --- merge ------------------------------------------------------------------------------------------------------- */

static enum att_status read_merge_sizes(const struct att_merge_args *args, struct shape *shape, bool *empty,
                                        struct failure *failure) {
    *shape = (struct shape){.batch = args->batch, .heads = args->heads, .len_q = args->len_q, .parts = args->parts};
    *empty = shape->len_q == 0;
    return check_sizes(shape, family_merge, failure);
}

static enum att_status read_merge(const struct knobs *knobs, const struct att_merge_args *args, struct arguments *out,
                                  struct failure *failure) {
    if (read_merge_sizes(args, &out->shape, &out->empty, failure) != ATT_OK)
        return failure->status;
    const struct shape *s = &out->shape;
    static const char *const o_names[] = {"batch", "heads", "len_q", "head_dim_v"};
    const int64_t o[] = {s->batch, s->heads, s->len_q, knobs->head_dim_v};
    int64_t lse_batch_stride = args->lse_batch_stride, lse_head_stride = args->lse_head_stride;
    int64_t part = args->lse_parts_part_stride, batch = args->lse_parts_batch_stride,
            head = args->lse_parts_head_stride;
    if (part == 0 && batch == 0 && head == 0) {
        head = s->len_q;
        batch = s->heads * s->len_q;
        if (__builtin_mul_overflow(batch, s->batch, &part))
            return failure_set(failure, ATT_INVALID_ARGUMENT,
                               "batch %" PRId64 ", heads %" PRId64 " and len_q %" PRId64 " are too many rows together",
                               s->batch, s->heads, s->len_q);
    }
    struct tensor lse = tensor_lse(args->lse, &lse_batch_stride, &lse_head_stride, s);
    out->tensor[out->tensors++] =
        (struct tensor){.name = "o_parts",
                        .data = args->o_parts.data,
                        .element = element_size(knobs->dtype),
                        .dims = 5,
                        .dim = {{"parts", "o_parts_part_stride", s->parts, args->o_parts_part_stride},
                                {"batch", "batch_stride", s->batch, args->o_parts.batch_stride},
                                {"heads", "head_stride", s->heads, args->o_parts.head_stride},
                                {"len_q", "row_stride", s->len_q, args->o_parts.row_stride},
                                {"head_dim_v", NULL, knobs->head_dim_v, 1}}};
    out->tensor[out->tensors++] = (struct tensor){.name = "lse_parts",
                                                  .data = args->lse_parts,
                                                  .element = (int)sizeof(float),
                                                  .dims = 4,
                                                  .dim = {{"parts", "lse_parts_part_stride", s->parts, part},
                                                          {"batch", "lse_parts_batch_stride", s->batch, batch},
                                                          {"heads", "lse_parts_head_stride", s->heads, head},
                                                          {"len_q", NULL, s->len_q, 1}}};
    out->tensor[out->tensors++] = tensor_4d("o", &args->o, knobs, true, o_names, o);
    if (args->lse)
        out->tensor[out->tensors++] = lse;
    out->params_size = sizeof out->params.merge;
    out->params.merge = (struct merge_params){.o_parts = args->o_parts.data,
                                              .lse_parts = args->lse_parts,
                                              .o = args->o.data,
                                              .lse = args->lse,
                                              .o_parts_part_stride = args->o_parts_part_stride,
                                              .o_parts_batch_stride = args->o_parts.batch_stride,
                                              .o_parts_head_stride = args->o_parts.head_stride,
                                              .o_parts_row_stride = args->o_parts.row_stride,
                                              .lse_parts_part_stride = part,
                                              .lse_parts_batch_stride = batch,
                                              .lse_parts_head_stride = head,
                                              .o_batch_stride = args->o.batch_stride,
                                              .o_head_stride = args->o.head_stride,
                                              .o_row_stride = args->o.row_stride,
                                              .lse_batch_stride = lse_batch_stride,
                                              .lse_head_stride = lse_head_stride,
                                              .parts = (int)s->parts,
                                              .batch = (int)s->batch,
                                              .heads = (int)s->heads,
                                              .len_q = (int)s->len_q};
    return ATT_OK;
}

/* --- every family ------------------------------------------------------------------------------------------------ */

enum att_status arguments_read_sizes(const struct knobs *knobs, const struct att_args *args, struct shape *shape,
                                     bool *empty, struct failure *failure) {
    if (check_family(knobs, args->family, failure) != ATT_OK)
        return failure->status;
    switch (knobs->family) {
    case family_softmax: return read_softmax_sizes(&args->softmax, shape, empty, failure);
    case family_attention_forward: return read_attention_sizes(knobs, &args->attention, shape, empty, failure);
    case family_merge: return read_merge_sizes(&args->merge, shape, empty, failure);
    default: return failure_set(failure, ATT_INTERNAL, "family %d has no arguments", knobs->family);
    }
}

static enum att_status read_family(const struct knobs *knobs, const struct att_args *args, struct arguments *out,
                                   struct failure *failure) {
    switch (knobs->family) {
    case family_softmax: return read_softmax(knobs, &args->softmax, out, failure);
    case family_attention_forward: return read_attention(knobs, &args->attention, out, failure);
    case family_merge: return read_merge(knobs, &args->merge, out, failure);
    default: return failure_set(failure, ATT_INTERNAL, "family %d has no arguments", knobs->family);
    }
}

enum att_status arguments_read(const struct knobs *knobs, const struct att_args *args, struct arguments *out,
                               struct failure *failure) {
    *out = (struct arguments){0};
    if (check_family(knobs, args->family, failure) != ATT_OK || read_family(knobs, args, out, failure) != ATT_OK)
        return failure->status;
    for (int i = 0; i < out->tensors; i++)
        if (tensor_check(&out->tensor[i], failure) != ATT_OK)
            return failure->status;
    for (int i = 0; i < out->tensors; i++)
        for (int j = 0; j < i; j++)
            if (out->tensor[i].output && tensor_check_overlap(&out->tensor[i], &out->tensor[j], failure) != ATT_OK)
                return failure->status;
    return ATT_OK;
}

enum att_status arguments_check_workspace(const struct arguments *arguments, const struct att_args *args, size_t bytes,
                                          struct failure *failure) {
    if (bytes == 0)
        return ATT_OK;
    if (!args->workspace || args->workspace_size < bytes)
        return failure_set(failure, ATT_INVALID_ARGUMENT,
                           "workspace: %s %zu bytes, expected %zu; att_workspace_size tells how many are needed",
                           args->workspace ? "it has" : "it is null with", args->workspace_size, bytes);
    if ((uintptr_t)args->workspace % WORKSPACE_ALIGNMENT)
        return failure_set(failure, ATT_INVALID_ARGUMENT, "workspace: address %p is not aligned to %d bytes",
                           args->workspace, WORKSPACE_ALIGNMENT);
    const struct tensor workspace = {
        .name = "workspace", .begin = (uintptr_t)args->workspace, .end = (uintptr_t)args->workspace + bytes};
    for (int i = 0; i < arguments->tensors; i++)
        if (tensor_check_overlap(&workspace, &arguments->tensor[i], failure) != ATT_OK)
            return failure->status;
    for (int i = 0; i < arguments->memories; i++) {
        const struct memory *memory = &arguments->memory[i];
        const struct tensor read = {.name = memory->name, .begin = memory->begin, .end = memory->end};
        if (tensor_check_overlap(&workspace, &read, failure) != ATT_OK)
            return failure->status;
    }
    return ATT_OK;
}
