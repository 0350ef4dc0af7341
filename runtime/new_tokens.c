#include "new_tokens.h"
#include "rope.h"

static enum att_status check_none(const struct att_attention_args *args, struct failure *failure) {
    if (args->k_new.data || args->v_new.data)
        return failure_set(failure, ATT_INVALID_ARGUMENT,
                           "%s is given, and this kernel takes none; problems with append=1 do",
                           args->k_new.data ? "k_new" : "v_new");
    return ATT_OK;
}

static enum att_status check_no_rope(const struct att_attention_args *args, struct failure *failure) {
    if (args->rope_base != 0 || args->rope_cos || args->rope_sin)
        return failure_set(failure, ATT_INVALID_ARGUMENT,
                           "%s is given, and this kernel rotates nothing; problems with append=1 and rope do",
                           args->rope_base != 0 ? "rope_base"
                           : args->rope_cos     ? "rope_cos"
                                                : "rope_sin");
    return ATT_OK;
}

/* (batch, kv_heads, len_q, dim), or packed (total_q, kv_heads, dim). */
static struct tensor rows(const char *name, const struct att_tensor *from, const struct knobs *knobs,
                          const struct extents *e, int64_t kv_heads, const char *dim_name, int64_t dim) {
    bool packed = knobs->layout == layout_ragged;
    return (struct tensor){.name = name,
                           .data = from->data,
                           .element = element_size(knobs->dtype),
                           .dims = 4,
                           .dim = {{e->batch, "batch_stride", e->size_batch, packed ? 0 : from->batch_stride},
                                   {"kv_heads", "head_stride", kv_heads, from->head_stride},
                                   {e->rows_q, "row_stride", e->size_rows_q, from->row_stride},
                                   {dim_name, NULL, dim, 1}}};
}

enum att_status new_tokens_read(const struct knobs *knobs, const struct att_attention_args *args,
                                const struct extents *extents, struct arguments *arguments, struct failure *failure) {
    int64_t kv_heads = arguments->shape.kv_heads;
    bool packed = knobs->layout == layout_ragged;
    if (knobs->append <= 0)
        return check_none(args, failure) == ATT_OK ? check_no_rope(args, failure) : failure->status;
    if (knobs->rope <= rope_none && check_no_rope(args, failure) != ATT_OK)
        return failure->status;
    struct rope_args rope = {args->rope_base, args->rope_cos, args->rope_sin, args->rope_row_stride, args->rope_rows};
    struct tensor *tensor = arguments->tensor;
    tensor[PLAN_K].output = tensor[PLAN_V].output = true;
    tensor[PLAN_V].beside = 1u << PLAN_K; /* views of one array */
    tensor[arguments->tensors++] = rows("k_new", &args->k_new, knobs, extents, kv_heads, "head_dim", knobs->head_dim);
    tensor[arguments->tensors++] =
        rows("v_new", &args->v_new, knobs, extents, kv_heads, "head_dim_v", knobs->head_dim_v);
    if (rope_read(knobs, &rope, arguments->shape.len_kv, arguments, failure) != ATT_OK)
        return failure->status;
    struct attention_params *params = arguments_attention(arguments);
    params->k_new = args->k_new.data;
    params->v_new = args->v_new.data;
    params->k_new_batch_stride = packed ? 0 : args->k_new.batch_stride;
    params->k_new_head_stride = args->k_new.head_stride;
    params->k_new_row_stride = args->k_new.row_stride;
    params->v_new_batch_stride = packed ? 0 : args->v_new.batch_stride;
    params->v_new_head_stride = args->v_new.head_stride;
    params->v_new_row_stride = args->v_new.row_stride;
    params->rope_cos = rope.cosine;
    params->rope_sin = rope.sine;
    params->rope_row_stride = rope.row_stride;
    params->rope_rows = (int)rope.rows;
    if (knobs->rope > rope_none && knobs->rope_from == rope_from_base)
        rope_turns(rope.base == 0 ? 10000 : (double)rope.base, rope_pairs(knobs), params->rope_turns);
    return ATT_OK;
}
