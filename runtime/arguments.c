#include "append.h"
#include "dropout.h"
#include "new_tokens.h"
#include "scales.h"
#include "sequences.h"
#include "tensor_check.h"
#include "wants.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

static enum att_status check_family(const struct knobs *knobs, enum att_family found, struct failure *failure) {
    _Static_assert(ATT_SOFTMAX == family_softmax + 1 && ATT_ATTENTION_FORWARD == family_attention_forward + 1 &&
                       ATT_MERGE == family_merge + 1 && ATT_ATTENTION_BACKWARD == family_attention_backward + 1 &&
                       ATT_APPEND_KV == family_append_kv + 1,
                   "0 is none");
    int expected = knobs->family + 1;
    if ((int)found == expected)
        return ATT_OK;
    return failure_set(failure, ATT_INVALID_ARGUMENT, "args.family is %d, expected %d (%s), the family of the kernel",
                       (int)found, expected, knob_word_name(KNOB_family, knobs->family));
}

/* --- attention_forward ------------------------------------------------------------------------------------------- */

/* Checks the sizes that the kernel has as constants. */
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
                                            struct shape *shape, struct failure *failure) {
    *shape = (struct shape){.batch = args->batch,
                            .heads = args->heads,
                            .kv_heads = args->kv_heads ? args->kv_heads : args->heads,
                            .len_q = args->len_q,
                            .len_kv = args->len_kv};
    if (arguments_check_sizes(shape, knobs->family, failure) != ATT_OK)
        return failure->status;
    if (shape->heads % shape->kv_heads)
        return failure_set(failure, ATT_INVALID_ARGUMENT,
                           "kv_heads is %" PRId64 ", expected a divisor of heads, which is %" PRId64, shape->kv_heads,
                           shape->heads);
    shape->packed_rows = knobs->layout == layout_ragged ? args->total_q : shape->batch * shape->len_q;
    shape->packed_keys = knobs->layout == layout_ragged ? args->total_kv : shape->batch * shape->len_kv;
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
    if (knobs->layout == layout_ragged && extents[0] == 1) /* packed: this dimension does not exist */
        tensor.dim[0].step = 0;
    return tensor;
}

/* Names and sizes of the dimensions of Q, K, V and O, and so of their gradients. */
struct attention_dims {
    const char *q_names[4], *k_names[4], *v_names[4], *o_names[4];
    int64_t q[4], k[4], v[4], o[4];
    struct shape lse; /* its batch, heads and len_q are the dimensions of LSE */
};

static struct attention_dims dims_of(const struct knobs *knobs, const struct shape *s, const struct extents *e) {
    return (struct attention_dims){
        .q_names = {e->batch, "heads", e->rows_q, "head_dim"},
        .k_names = {e->pages, "kv_heads", e->rows_kv, "head_dim"},
        .v_names = {e->pages, "kv_heads", e->rows_kv, "head_dim_v"},
        .o_names = {e->batch, "heads", e->rows_q, "head_dim_v"},
        .q = {e->size_batch, s->heads, e->size_rows_q, knobs->head_dim},
        .k = {e->size_pages, s->kv_heads, e->size_rows_kv, knobs->head_dim},
        .v = {e->size_pages, s->kv_heads, e->size_rows_kv, knobs->head_dim_v},
        .o = {e->size_batch, s->heads, e->size_rows_q, knobs->head_dim_v},
        .lse = {.batch = e->size_batch, .heads = s->heads, .len_q = e->size_rows_q},
    };
}

/* (batch, heads, len_q) floats; strides of zero mean contiguous. */
static struct tensor tensor_lse(const float *data, int64_t *batch_stride, int64_t *head_stride,
                                const struct shape *shape) {
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

/* 0 means the default, ATT_SCALE_ZERO means 0. */
static float scale_of(const struct knobs *knobs, float scale) {
    if (scale != 0)
        return scale;
    return signbit(scale) ? 0 : (float)(1 / sqrt(knobs->head_dim));
}

/* Reads V as the kernel sees it: with shared_kv it lies in K, and `v` must be null or describe the same place. */
static enum att_status read_values(const struct knobs *knobs, const struct att_attention_args *args,
                                   struct att_tensor *v, struct failure *failure) {
    const struct att_tensor *k = &args->k;
    *v = args->v;
    if (knobs->shared_kv != 1)
        return ATT_OK;
    *v = *k;
    if (!args->v.data || (args->v.data == k->data && args->v.batch_stride == k->batch_stride &&
                          args->v.head_stride == k->head_stride && args->v.row_stride == k->row_stride))
        return ATT_OK;
    return failure_set(
        failure, ATT_INVALID_ARGUMENT,
        "v: address %p and strides %" PRId64 ", %" PRId64 ", %" PRId64 ", expected null, or those of k, %p and %" PRId64
        ", %" PRId64 ", %" PRId64
        ": with shared_kv=1 V is the first head_dim_v columns of K; find a kernel without it for another V",
        args->v.data, args->v.batch_stride, args->v.head_stride, args->v.row_stride, k->data, k->batch_stride,
        k->head_stride, k->row_stride);
}

/* Reads Q, K, V, O and LSE; the last two are outputs of the forward pass, and inputs of the backward pass. */
static enum att_status read_attention_tensors(const struct knobs *knobs, const struct att_attention_args *args,
                                              struct arguments *out, struct extents *extents, struct failure *failure) {
    if (read_attention_sizes(knobs, args, &out->shape, failure) != ATT_OK)
        return failure->status;
    bool forward = knobs->family == family_attention_forward;
    if (!isfinite(args->scale))
        return failure_set(failure, ATT_INVALID_ARGUMENT, "scale is %f, expected a finite number; 0 = 1/sqrt(head_dim)",
                           (double)args->scale);
    struct att_tensor values;
    if (read_values(knobs, args, &values, failure) != ATT_OK)
        return failure->status;
    const struct shape *s = &out->shape;
    if (sequences_read(knobs, args, s, extents, out, failure) != ATT_OK ||
        dropout_read(knobs, args, out, failure) != ATT_OK)
        return failure->status;
    const struct attention_dims dims = dims_of(knobs, s, extents), *d = &dims;
    int64_t lse_batch_stride = args->lse_batch_stride, lse_head_stride = args->lse_head_stride;
    struct tensor lse = tensor_lse(args->lse, &lse_batch_stride, &lse_head_stride, &d->lse);
    struct tensor *tensor = out->tensor; /* in the order of enum plan_tensor; those of the lengths follow */
    tensor[PLAN_Q] = tensor_4d("q", &args->q, knobs, false, d->q_names, d->q);
    tensor[PLAN_K] = tensor_4d("k", &args->k, knobs, false, d->k_names, d->k);
    tensor[PLAN_V] = tensor_4d("v", &values, knobs, false, d->v_names, d->v);
    tensor[PLAN_O] = tensor_4d("o", &args->o, knobs, forward, d->o_names, d->o);
    if (knobs_quantised(knobs))
        tensor[PLAN_K].element = tensor[PLAN_V].element = element_size(knobs->dtype_kv);
    lse.output = forward;
    if (args->lse || !forward)
        out->tensor[out->tensors++] = lse;
    out->params_size = sizeof(struct attention_params);
    *arguments_attention(out) = (struct attention_params){
        .q = args->q.data,
        .k = args->k.data,
        .v = values.data,
        .o = args->o.data,
        .lse = args->lse,
        .q_batch_stride = args->q.batch_stride,
        .q_head_stride = args->q.head_stride,
        .q_row_stride = args->q.row_stride,
        .k_batch_stride = args->k.batch_stride,
        .k_head_stride = args->k.head_stride,
        .k_row_stride = args->k.row_stride,
        .v_batch_stride = values.batch_stride,
        .v_head_stride = values.head_stride,
        .v_row_stride = values.row_stride,
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
    sequences_fill(knobs, args, s, arguments_attention(out));
    dropout_fill(args, arguments_attention(out));
    if (scales_read(knobs, args, extents, out, failure) != ATT_OK)
        return failure->status;
    return new_tokens_read(knobs, args, extents, out, failure);
}

/* Members that only some problems have, in their order; each extends to the next one, the last one to the end. */
static bool has_sequences(const struct knobs *knobs) { return knobs->layout > layout_dense; }
static bool has_dropout(const struct knobs *knobs) { return knobs->dropout > 0; }
static bool has_scales(const struct knobs *knobs) { return knobs->kv_scale > kv_scale_none; }
static bool has_new_tokens(const struct knobs *knobs) { return knobs->append > 0; }
static bool has_turns(const struct knobs *knobs) {
    return has_new_tokens(knobs) && knobs->rope > rope_none && knobs->rope_from == rope_from_base;
}
static bool has_formulas(const struct knobs *knobs) {
    return knobs->mask == mask_custom_mask || knobs->score == score_custom_score || knobs->sinks > 0;
}
static const struct {
    size_t begin;
    bool (*present)(const struct knobs *knobs);
} optional_members[] = {
    {offsetof(struct attention_params, splits), knobs_split_keys},
    {offsetof(struct attention_params, cu_seqlens_q), has_sequences},
    {offsetof(struct attention_params, dropout_state), has_dropout},
    {offsetof(struct attention_params, k_scale), has_scales},
    {offsetof(struct attention_params, k_new), has_new_tokens},
    {offsetof(struct attention_params, rope_turns), has_turns},
    {offsetof(struct attention_params, param), has_formulas},
};

size_t arguments_pack(const struct knobs *knobs, struct attention_params *params) {
    enum { COUNT = sizeof optional_members / sizeof *optional_members };
    char *bytes = (char *)params;
    size_t size = optional_members[0].begin;
    for (int i = 0; i < COUNT; i++) {
        size_t begin = optional_members[i].begin, end = i + 1 < COUNT ? optional_members[i + 1].begin : sizeof *params;
        if (!optional_members[i].present(knobs))
            continue;
        memmove(bytes + size, bytes + begin, end - begin);
        size += end - begin;
    }
    return size;
}

static bool attention_is_empty(const struct knobs *knobs, const struct att_attention_args *args) {
    return args->len_q == 0 || (knobs->layout == layout_ragged && args->total_q == 0);
}

static enum att_status read_attention(const struct knobs *knobs, const struct att_attention_args *args,
                                      struct arguments *out, struct failure *failure) {
    struct extents extents;
    out->empty = attention_is_empty(knobs, args);
    return read_attention_tensors(knobs, args, out, &extents, failure);
}

/* --- attention_backward ------------------------------------------------------------------------------------------ */

static bool backward_is_empty(const struct knobs *knobs, const struct att_attention_backward_args *args) {
    const struct att_attention_args *forward = &args->forward;
    bool packed = knobs->layout == layout_ragged;
    bool queries = forward->len_q != 0 && !(packed && forward->total_q == 0);
    bool keys = forward->len_kv != 0 && !(packed && forward->total_kv == 0);
    return !queries && !keys && !(knobs->sinks > 0 && args->d_sinks) && args->param_gradient_count == 0;
}

static enum att_status read_attention_backward(const struct knobs *knobs,
                                               const struct att_attention_backward_args *args, struct arguments *out,
                                               struct failure *failure) {
    struct extents extents;
    if (read_attention_tensors(knobs, &args->forward, out, &extents, failure) != ATT_OK)
        return failure->status;
    if (args->d_sinks && knobs->sinks == 0)
        return failure_set(failure, ATT_INVALID_ARGUMENT,
                           "d_sinks is given, expected null: the problem has no sinks (knob sinks)");
    if (args->d_sinks && !wants_has(knobs->formulas.wants, "d_sinks"))
        return failure_set(failure, ATT_INVALID_ARGUMENT,
                           "d_sinks is given, expected null: the problem does not want it (knob wants)");
    const struct shape *s = &out->shape;
    const struct attention_dims dims = dims_of(knobs, s, &extents), *d = &dims;
    int64_t d_lse_batch_stride = args->d_lse_batch_stride, d_lse_head_stride = args->d_lse_head_stride;
    struct tensor d_lse = tensor_lse(args->d_lse, &d_lse_batch_stride, &d_lse_head_stride, &d->lse);
    d_lse.name = "d_lse";
    d_lse.dim[0].stride = "d_lse_batch_stride";
    d_lse.dim[1].stride = "d_lse_head_stride";
    d_lse.output = false;
    out->tensor[PLAN_D_O] = tensor_4d("d_o", &args->d_o, knobs, false, d->o_names, d->o);
    if (args->d_lse)
        out->tensor[out->tensors++] = d_lse;
    if (wants_has(knobs->formulas.wants, "dq"))
        out->tensor[out->tensors++] = tensor_4d("dq", &args->dq, knobs, true, d->q_names, d->q);
    if (wants_has(knobs->formulas.wants, "dk"))
        out->tensor[out->tensors++] = tensor_4d("dk", &args->dk, knobs, true, d->k_names, d->k);
    if (wants_has(knobs->formulas.wants, "dv"))
        out->tensor[out->tensors++] = tensor_4d("dv", &args->dv, knobs, true, d->v_names, d->v);
    if (args->d_sinks)
        out->tensor[out->tensors++] = (struct tensor){.name = "d_sinks",
                                                      .data = args->d_sinks,
                                                      .element = (int)sizeof(float),
                                                      .output = true,
                                                      .dims = 1,
                                                      .dim = {{"heads", NULL, s->heads, 1}}};
    out->empty = backward_is_empty(knobs, args);
    out->params_size += offsetof(struct attention_backward_params, forward);
    struct attention_params forward = out->params.attention_backward.forward;
    out->params.attention_backward = (struct attention_backward_params){
        .d_o = args->d_o.data,
        .d_lse = args->d_lse,
        .dq = args->dq.data,
        .dk = args->dk.data,
        .dv = args->dv.data,
        .d_sinks = args->d_sinks,
        .d_o_batch_stride = args->d_o.batch_stride,
        .d_o_head_stride = args->d_o.head_stride,
        .d_o_row_stride = args->d_o.row_stride,
        .d_lse_batch_stride = d_lse_batch_stride,
        .d_lse_head_stride = d_lse_head_stride,
        .dq_batch_stride = args->dq.batch_stride,
        .dq_head_stride = args->dq.head_stride,
        .dq_row_stride = args->dq.row_stride,
        .dk_batch_stride = args->dk.batch_stride,
        .dk_head_stride = args->dk.head_stride,
        .dk_row_stride = args->dk.row_stride,
        .dv_batch_stride = args->dv.batch_stride,
        .dv_head_stride = args->dv.head_stride,
        .dv_row_stride = args->dv.row_stride,
        .forward = forward,
    };
    return ATT_OK;
}

/* --- softmax ----------------------------------------------------------------------------------------------------- */

static enum att_status read_softmax_sizes(const struct att_softmax_args *args, struct shape *shape, bool *empty,
                                          struct failure *failure) {
    *shape = (struct shape){.rows = args->rows, .cols = args->cols};
    *empty = shape->rows == 0 || shape->cols == 0;
    return arguments_check_sizes(shape, family_softmax, failure);
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
    return arguments_check_sizes(shape, family_merge, failure);
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
    case family_attention_forward:
        *empty = attention_is_empty(knobs, &args->attention);
        return read_attention_sizes(knobs, &args->attention, shape, failure);
    case family_attention_backward:
        *empty = backward_is_empty(knobs, &args->attention_backward);
        return read_attention_sizes(knobs, &args->attention_backward.forward, shape, failure);
    case family_merge: return read_merge_sizes(&args->merge, shape, empty, failure);
    case family_append_kv: return append_read_sizes(knobs, &args->append, shape, empty, failure);
    default: return failure_set(failure, ATT_INTERNAL, "family %d has no arguments", knobs->family);
    }
}

static enum att_status read_family(const struct knobs *knobs, const struct att_args *args, struct arguments *out,
                                   struct failure *failure) {
    switch (knobs->family) {
    case family_softmax: return read_softmax(knobs, &args->softmax, out, failure);
    case family_attention_forward: return read_attention(knobs, &args->attention, out, failure);
    case family_attention_backward: return read_attention_backward(knobs, &args->attention_backward, out, failure);
    case family_merge: return read_merge(knobs, &args->merge, out, failure);
    case family_append_kv: return append_read(knobs, &args->append, out, failure);
    default: return failure_set(failure, ATT_INTERNAL, "family %d has no arguments", knobs->family);
    }
}

enum att_status arguments_read(const struct knobs *knobs, const struct att_args *args, struct arguments *out,
                               struct failure *failure) {
    memset(out, 0, offsetof(struct arguments, tensor));
    out->family = knobs->family;
    if (check_family(knobs, args->family, failure) != ATT_OK || read_family(knobs, args, out, failure) != ATT_OK)
        return failure->status;
    for (int i = 0; i < out->tensors; i++)
        if (tensor_check(&out->tensor[i], failure) != ATT_OK)
            return failure->status;
    for (int i = 0; i < out->tensors; i++)
        for (int j = 0; j < i; j++)
            if (!(out->tensor[i].beside >> j & 1) &&
                ((out->tensor[i].output && tensor_check_overlap(&out->tensor[i], &out->tensor[j], failure) != ATT_OK) ||
                 (out->tensor[j].output && tensor_check_overlap(&out->tensor[j], &out->tensor[i], failure) != ATT_OK)))
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
