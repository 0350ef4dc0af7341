#include "append.h"
#include "rope.h"
#include "sequences.h"

#include <inttypes.h>

enum { ALIGNED_MOST = 16 };

static bool pages(const struct knobs *knobs) { return knobs->page_size > 0; }
static bool ragged(const struct knobs *knobs) { return knobs->layout == layout_ragged; }
static bool rotates(const struct knobs *knobs) { return knobs->rope != rope_none; }

/* --- sizes ------------------------------------------------------------------------------------------------------- */

static enum att_status check_total(const struct knobs *knobs, const struct att_append_args *args, struct shape *shape,
                                   struct failure *failure) {
    if (ragged(knobs)) {
        shape->total_q = args->total_q;
        return ATT_OK;
    }
    if (__builtin_mul_overflow(shape->batch, shape->len_q, &shape->total_q) || shape->total_q > INT32_MAX)
        return failure_set(failure, ATT_INVALID_ARGUMENT,
                           "batch %" PRId64 " and len_q %" PRId64 " are too many tokens together, expected at most %d",
                           shape->batch, shape->len_q, INT32_MAX);
    return ATT_OK;
}

enum att_status append_read_sizes(const struct knobs *knobs, const struct att_append_args *args, struct shape *shape,
                                  bool *empty, struct failure *failure) {
    *shape = (struct shape){.batch = args->batch,
                            .heads = args->heads,
                            .kv_heads = args->kv_heads ? args->kv_heads : args->heads,
                            .len_q = args->len_q,
                            .len_kv = args->len_kv};
    if (arguments_check_sizes(shape, family_append_kv, failure) != ATT_OK ||
        check_total(knobs, args, shape, failure) != ATT_OK ||
        arguments_check_sizes(shape, family_append_kv, failure) != ATT_OK)
        return failure->status;
    if (knobs->layout == layout_dense && !knobs->slots && shape->len_q > shape->len_kv)
        return failure_set(failure, ATT_INVALID_ARGUMENT,
                           "len_q is %" PRId64 ", expected at most len_kv, which is %" PRId64
                           ": the new tokens of a sequence are the last ones of its cache",
                           shape->len_q, shape->len_kv);
    if (pages(knobs) && (args->pages < 0 || args->pages > INT32_MAX))
        return failure_set(failure, ATT_INVALID_ARGUMENT, "pages is %" PRId64 ", expected 0 to %d", args->pages,
                           INT32_MAX);
    *empty = shape->total_q == 0;
    return ATT_OK;
}

/* --- tensors ----------------------------------------------------------------------------------------------------- */

static struct tensor *add(struct arguments *out, struct tensor tensor) {
    out->tensor[out->tensors] = tensor;
    return &out->tensor[out->tensors++];
}

/* New tokens: (batch, heads, len_q, dim), or packed (total_q, heads, dim). */
static struct tensor tokens(const char *name, const struct att_tensor *from, const struct knobs *knobs,
                            const struct shape *shape, const char *heads_name, int64_t heads, const char *dim_name,
                            int64_t dim) {
    struct tensor tensor = {.name = name, .data = from->data, .element = element_size(knobs->dtype)};
    if (ragged(knobs)) {
        tensor.dims = 3;
        tensor.dim[0].name = "total_q", tensor.dim[0].stride = "row_stride";
        tensor.dim[0].extent = shape->total_q, tensor.dim[0].step = from->row_stride;
    } else {
        tensor.dims = 4;
        tensor.dim[0].name = "batch", tensor.dim[0].stride = "batch_stride";
        tensor.dim[0].extent = shape->batch, tensor.dim[0].step = from->batch_stride;
        tensor.dim[2].name = "len_q", tensor.dim[2].stride = "row_stride";
        tensor.dim[2].extent = shape->len_q, tensor.dim[2].step = from->row_stride;
    }
    tensor.dim[1].name = heads_name, tensor.dim[1].stride = "head_stride";
    tensor.dim[1].extent = heads, tensor.dim[1].step = from->head_stride;
    tensor.dim[tensor.dims - 1].name = dim_name;
    tensor.dim[tensor.dims - 1].extent = dim, tensor.dim[tensor.dims - 1].step = 1;
    return tensor;
}

/* A tensor of the cache: (batch, kv_heads, len_kv, dim), or (pages, kv_heads, page_size, dim). */
static struct tensor cache(const char *name, const struct att_tensor *from, const struct knobs *knobs,
                           const struct att_append_args *args, const struct shape *shape, const char *dim_name,
                           int64_t dim) {
    bool paged = pages(knobs);
    return (struct tensor){
        .name = name,
        .data = from->data,
        .element = element_size(knobs->dtype_kv),
        .output = true,
        .dims = 4,
        .dim = {
            {paged ? "pages" : "batch", "batch_stride", paged ? args->pages : shape->batch, from->batch_stride},
            {"kv_heads", "head_stride", shape->kv_heads, from->head_stride},
            {paged ? "page_size" : "len_kv", "row_stride", paged ? knobs->page_size : shape->len_kv, from->row_stride},
            {dim_name, NULL, dim, 1}}};
}

/* An array on the device with elements of `element` bytes. */
static struct tensor list(const char *name, const void *data, int element, const char *of, int64_t extent) {
    return (struct tensor){.name = name, .data = data, .element = element, .dims = 1, .dim = {{of, NULL, extent, 1}}};
}

static struct tensor table(const char *name, const void *data, const char *rows_name, int64_t rows,
                           const char *stride_name, int64_t stride, const char *of, int64_t extent) {
    return (struct tensor){.name = name,
                           .data = data,
                           .element = 4,
                           .dims = 2,
                           .dim = {{rows_name, stride_name, rows, stride}, {of, NULL, extent, 1}}};
}

/* The largest power of two, in elements, that divides the address and all strides of `tensor`. */
static int aligned(const struct tensor *tensor) {
    uint64_t bits = (uint64_t)(uintptr_t)tensor->data / (uint64_t)tensor->element;
    for (int i = 0; i + 1 < tensor->dims; i++)
        if (tensor->dim[i].extent > 1)
            bits |= (uint64_t)tensor->dim[i].step;
    for (int at = ALIGNED_MOST; at > 1; at /= 2)
        if (bits % (uint64_t)at == 0)
            return at;
    return 1;
}

/* --- scales ------------------------------------------------------------------------------------------------------ */

struct scale {
    const char *name;
    float *data;
    int64_t *batch, *head, *row; /* strides */
};

static void add_scale(const struct knobs *knobs, const struct att_append_args *args, const struct scale *scale,
                      struct arguments *out) {
    const struct shape *s = &out->shape;
    int64_t blocks = pages(knobs) ? args->pages : s->batch, rows = pages(knobs) ? knobs->page_size : s->len_kv;
    if (knobs->kv_scale == kv_scale_tensor)
        add(out, list(scale->name, scale->data, (int)sizeof(float), "one", 1));
    else if (knobs->kv_scale == kv_scale_head) {
        *scale->head = 1;
        add(out, list(scale->name, scale->data, (int)sizeof(float), "kv_heads", s->kv_heads));
    } else if (knobs->kv_scale == kv_scale_token) {
        if (*scale->batch == 0 && *scale->head == 0 && *scale->row == 0) {
            *scale->row = 1;
            *scale->head = rows;
            *scale->batch = s->kv_heads * rows; /* both fit an int */
        }
        /* rows may lie apart, unlike the last dimension of other tensors: each is an array of one number */
        add(out, (struct tensor){.name = scale->name,
                                 .data = scale->data,
                                 .element = (int)sizeof(float),
                                 .output = true,
                                 .dims = 4,
                                 .dim = {{pages(knobs) ? "pages" : "batch", "batch_stride", blocks, *scale->batch},
                                         {"kv_heads", "head_stride", s->kv_heads, *scale->head},
                                         {pages(knobs) ? "page_size" : "len_kv", "row_stride", rows, *scale->row},
                                         {"one", NULL, 1, 1}}});
    }
}

/* --- all of them ------------------------------------------------------------------------------------------------- */

static void add_places(const struct knobs *knobs, const struct att_append_args *args, int64_t table_stride,
                       struct arguments *out) {
    const struct shape *s = &out->shape;
    if (knobs->slots) {
        add(out, list("slots", args->slots, (int)sizeof(int64_t), "batch * len_q", s->total_q));
        if (rotates(knobs))
            add(out, list("positions", args->positions, (int)sizeof(int32_t), "batch * len_q", s->total_q));
        return;
    }
    if (ragged(knobs))
        add(out, list("cu_seqlens_q", args->cu_seqlens_q, (int)sizeof(int32_t), "batch + 1", s->batch + 1));
    if (knobs->layout != layout_dense)
        add(out, list("lengths_kv", args->lengths_kv, (int)sizeof(int32_t), "batch", s->batch));
    if (!pages(knobs))
        return;
    if (knobs->page_table == page_table_table) {
        add(out, table("page_table", args->page_table, "batch", s->batch, "page_table_row_stride", table_stride,
                       "pages of a sequence", (s->len_kv + knobs->page_size - 1) / knobs->page_size));
    } else { /* only the device knows how many page numbers there are */
        add(out, list("page_indptr", args->page_indptr, (int)sizeof(int32_t), "batch + 1", s->batch + 1));
        add(out, list("page_indices", args->page_indices, (int)sizeof(int32_t), "page numbers", s->len_kv > 0));
    }
}

enum att_status append_read(const struct knobs *knobs, const struct att_append_args *args, struct arguments *out,
                            struct failure *failure) {
    if (append_read_sizes(knobs, args, &out->shape, &out->empty, failure) != ATT_OK)
        return failure->status;
    if (rotates(knobs) && !args->q.data && args->q_out.data)
        return failure_set(failure, ATT_INVALID_ARGUMENT, "q is null and q_out is not; both are null to append only");
    struct shape *s = &out->shape;
    bool queries = rotates(knobs) && args->q.data;
    int alignment = 16;
    int64_t table_stride = args->page_table_row_stride;
    struct rope_args rope = {args->rope_base, args->rope_cos, args->rope_sin, args->rope_row_stride, args->rope_rows};
    if (table_stride == 0 && pages(knobs))
        table_stride = (s->len_kv + knobs->page_size - 1) / knobs->page_size;
    struct append_kv_params *p = &out->params.append;
    *p = (struct append_kv_params){.q = queries ? args->q.data : NULL,
                                   .k = args->k.data,
                                   .v = args->v.data,
                                   .q_out = queries ? args->q_out.data : NULL,
                                   .k_cache = args->k_cache.data,
                                   .v_cache = args->v_cache.data,
                                   .q_batch_stride = ragged(knobs) ? 0 : args->q.batch_stride,
                                   .q_head_stride = args->q.head_stride,
                                   .q_row_stride = args->q.row_stride,
                                   .q_out_batch_stride = ragged(knobs) ? 0 : args->q_out.batch_stride,
                                   .q_out_head_stride = args->q_out.head_stride,
                                   .q_out_row_stride = args->q_out.row_stride,
                                   .k_batch_stride = ragged(knobs) ? 0 : args->k.batch_stride,
                                   .k_head_stride = args->k.head_stride,
                                   .k_row_stride = args->k.row_stride,
                                   .v_batch_stride = ragged(knobs) ? 0 : args->v.batch_stride,
                                   .v_head_stride = args->v.head_stride,
                                   .v_row_stride = args->v.row_stride,
                                   .k_cache_batch_stride = args->k_cache.batch_stride,
                                   .k_cache_head_stride = args->k_cache.head_stride,
                                   .k_cache_row_stride = args->k_cache.row_stride,
                                   .v_cache_batch_stride = args->v_cache.batch_stride,
                                   .v_cache_head_stride = args->v_cache.head_stride,
                                   .v_cache_row_stride = args->v_cache.row_stride,
                                   .k_scale = args->k_scale,
                                   .v_scale = args->v_scale,
                                   .cu_seqlens_q = args->cu_seqlens_q,
                                   .lengths_kv = args->lengths_kv,
                                   .page_table = args->page_table,
                                   .page_indptr = args->page_indptr,
                                   .page_indices = args->page_indices,
                                   .slots = (const long long *)args->slots,
                                   .positions = args->positions,
                                   .rope_cos = args->rope_cos,
                                   .rope_sin = args->rope_sin,
                                   .page_table_row_stride = table_stride,
                                   .batch = (int)s->batch,
                                   .heads = queries ? (int)s->heads : 0,
                                   .kv_heads = (int)s->kv_heads,
                                   .tokens = (int)s->total_q,
                                   .len_q = (int)s->len_q,
                                   .len_kv = (int)s->len_kv,
                                   .pages = (int)args->pages,
                                   .rope_rows = (int)args->rope_rows};
    s->heads = p->heads; /* the grid is computed from it */

    /* Inputs first: the check compares outputs with the tensors before them. */
    int q = out->tensors, k, v, k_cache, k_scale;
    if (queries)
        add(out, tokens("q", &args->q, knobs, s, "heads", s->heads, "head_dim", knobs->head_dim));
    k = out->tensors;
    add(out, tokens("k", &args->k, knobs, s, "kv_heads", s->kv_heads, "head_dim", knobs->head_dim));
    v = out->tensors;
    add(out, tokens("v", &args->v, knobs, s, "kv_heads", s->kv_heads, "head_dim_v", knobs->head_dim_v));
    for (int i = q; i <= v; i++)
        alignment = alignment < aligned(&out->tensor[i]) ? alignment : aligned(&out->tensor[i]);
    add_places(knobs, args, table_stride, out);
    if (rope_read(knobs, &rope, knobs->slots ? 0 : s->len_kv, out, failure) != ATT_OK)
        return failure->status;
    p->rope_row_stride = rope.row_stride;
    int outputs = out->tensors;
    if (queries) {
        struct tensor *q_out =
            add(out, tokens("q_out", &args->q_out, knobs, s, "heads", s->heads, "head_dim", knobs->head_dim));
        q_out->element = element_size(knobs->dtype_out);
        q_out->output = q_out->in_place = true;
        if (args->q_out.data == args->q.data) /* q_out may interleave with k and v in one array, as q did */
            q_out->beside = 1u << k | 1u << v;
    }
    k_cache = out->tensors;
    add(out, cache("k_cache", &args->k_cache, knobs, args, s, "head_dim", knobs->head_dim));
    add(out, cache("v_cache", &args->v_cache, knobs, args, s, "head_dim_v", knobs->head_dim_v))->beside = 1u << k_cache;
    for (int i = outputs; i < out->tensors; i++)
        alignment = alignment < aligned(&out->tensor[i]) ? alignment : aligned(&out->tensor[i]);
    int64_t k_strides[] = {args->k_scale_batch_stride, args->k_scale_head_stride, args->k_scale_row_stride};
    int64_t v_strides[] = {args->v_scale_batch_stride, args->v_scale_head_stride, args->v_scale_row_stride};
    k_scale = out->tensors;
    add_scale(knobs, args, &(struct scale){"k_scale", args->k_scale, &k_strides[0], &k_strides[1], &k_strides[2]}, out);
    add_scale(knobs, args, &(struct scale){"v_scale", args->v_scale, &v_strides[0], &v_strides[1], &v_strides[2]}, out);
    if (out->tensors > k_scale)
        out->tensor[out->tensors - 1].beside = 1u << k_scale;
    p->k_scale_batch_stride = k_strides[0], p->k_scale_head_stride = k_strides[1], p->k_scale_row_stride = k_strides[2];
    p->v_scale_batch_stride = v_strides[0], p->v_scale_head_stride = v_strides[1], p->v_scale_row_stride = v_strides[2];
    p->aligned = alignment;

    bool by_base = rotates(knobs) && knobs->rope_from == rope_from_base;
    out->params_size = by_base ? sizeof *p : offsetof(struct append_kv_params, rope_turns);
    if (by_base)
        rope_turns(args->rope_base == 0 ? 10000 : (double)args->rope_base, rope_pairs(knobs), p->rope_turns);
    return ATT_OK;
}

/* --- the numbers ------------------------------------------------------------------------------------------------- */

enum att_status append_check(const struct knobs *knobs, const struct att_append_args *args, const struct shape *shape,
                             struct failure *failure) {
    if (knobs->slots || knobs->layout <= layout_dense)
        return ATT_OK;
    if (ragged(knobs) &&
        sequences_check_sums("cu_seqlens_q", args->cu_seqlens_q, shape->batch, shape->len_q, args->total_q,
                             "the begin of the sequence, and len_q or total_q", failure) != ATT_OK)
        return failure->status;
    for (int64_t b = 0; b < shape->batch; b++)
        if (sequences_check_number("lengths_kv", b, args->lengths_kv[b], 0, shape->len_kv, "len_kv is the most",
                                   failure) != ATT_OK)
            return failure->status;
    return ATT_OK;
}
