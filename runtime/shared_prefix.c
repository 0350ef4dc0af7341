/* att_launch_shared_prefix: attention to a prefix that all sequences share, attention of each to its own keys, and
   their merge: three launches, one after the other. Both results are in the workspace as (tokens, heads, head_dim_v),
   their LSE as (heads, tokens). */
#include "arguments.h"
#include "session.h"
#include "sized.h"

#include <inttypes.h>

enum { PREFIX, OWN, MERGE, STEPS };

struct steps {
    att_kernel *kernel[STEPS];
    struct att_args args[STEPS];
    size_t parts;     /* bytes of both results */
    size_t workspace; /* total bytes, including what the kernels need for themselves */
};

static const char *const step_names[STEPS] = {"prefix.prefix", "kernel", "prefix.merge"};

/* --- do the kernels fit together? -------------------------------------------------------------------------------- */

static enum att_status check_equal(const struct steps *steps, int a, enum knob_id knob, int b, enum knob_id like,
                                   struct failure *failure) {
    int found = knob_get(&steps->kernel[a]->variant.knobs, knob),
        wanted = knob_get(&steps->kernel[b]->variant.knobs, like);
    if (found == wanted)
        return ATT_OK;
    struct text is = {0}, expected = {0};
    knob_print(&steps->kernel[a]->variant.knobs, knob, &is);
    knob_print(&steps->kernel[b]->variant.knobs, like, &expected);
    failure_set(failure, ATT_INVALID_ARGUMENT, "%s has %s=%s, expected %s, the %s of %s", step_names[a],
                knob_table[knob].name, text_string(&is), text_string(&expected), knob_table[like].name, step_names[b]);
    text_free(&is);
    text_free(&expected);
    return failure->status;
}

static enum att_status check_kernels(const struct steps *steps, struct failure *failure) {
    static const int families[STEPS] = {family_attention_forward, family_attention_forward, family_merge};
    for (int i = 0; i < STEPS; i++) {
        const att_kernel *kernel = steps->kernel[i];
        if (!kernel)
            return failure_set(failure, ATT_INVALID_ARGUMENT, "%s is null, expected a kernel of family %s",
                               step_names[i], knob_word_name(KNOB_family, families[i]));
        if (kernel->session != steps->kernel[OWN]->session)
            return failure_set(failure, ATT_INVALID_ARGUMENT, "%s is of another session than kernel", step_names[i]);
        if (kernel->variant.knobs.family != families[i])
            return failure_set(failure, ATT_INVALID_ARGUMENT, "%s is of family %s, expected %s", step_names[i],
                               knob_word_name(KNOB_family, kernel->variant.knobs.family),
                               knob_word_name(KNOB_family, families[i]));
    }
    const att_kernel *prefix = steps->kernel[PREFIX];
    const struct knobs *knobs = &prefix->variant.knobs;
    if (knobs->mask != mask_none || knobs->sinks > 0 || prefix->formulas.scope.count > 0)
        return failure_set(failure, ATT_INVALID_ARGUMENT,
                           "prefix.prefix is %s, expected mask=none, no sinks and no parameters: every query sees the "
                           "whole prefix",
                           prefix->variant.name);
    for (int i = 0; i < STEPS; i++)
        if (steps->kernel[i]->variant.knobs.dropout > 0)
            return failure_set(failure, ATT_INVALID_ARGUMENT,
                               "%s is %s, expected one without dropout, which would count keys from the prefix's end",
                               step_names[i], steps->kernel[i]->variant.name);
    if (steps->kernel[OWN]->variant.knobs.append > 0)
        return failure_set(
            failure, ATT_INVALID_ARGUMENT,
            "kernel is %s, expected one without append, which would count positions from the prefix's end; "
            "append_kv goes ahead",
            steps->kernel[OWN]->variant.name);
    if (knobs->layout == layout_ragged)
        return failure_set(failure, ATT_INVALID_ARGUMENT,
                           "prefix.prefix has layout=ragged, expected dense, or padded with pages: it is one sequence");
    static const enum knob_id alike[] = {KNOB_dtype, KNOB_dtype_out, KNOB_head_dim, KNOB_head_dim_v};
    for (size_t i = 0; i < sizeof alike / sizeof *alike; i++)
        if (check_equal(steps, PREFIX, alike[i], OWN, alike[i], failure) != ATT_OK)
            return failure->status;
    if (check_equal(steps, MERGE, KNOB_dtype, OWN, KNOB_dtype_out, failure) != ATT_OK)
        return failure->status;
    return check_equal(steps, MERGE, KNOB_head_dim_v, OWN, KNOB_head_dim_v, failure);
}

/* --- the three launches ------------------------------------------------------------------------------------------ */

static size_t round_up(size_t bytes) {
    return (bytes + WORKSPACE_ALIGNMENT - 1) / WORKSPACE_ALIGNMENT * WORKSPACE_ALIGNMENT;
}

/* Describes the queries of all sequences as those of one sequence. */
static enum att_status join_queries(const struct att_attention_args *own, bool packed, struct att_tensor *q,
                                    struct failure *failure) {
    *q = own->q;
    if (!packed && own->len_q == 1)
        q->row_stride = own->q.batch_stride;
    else if (!packed && own->batch > 1 && own->q.batch_stride != own->len_q * own->q.row_stride)
        return failure_set(failure, ATT_INVALID_ARGUMENT,
                           "q: batch_stride is %" PRId64 ", expected len_q * row_stride, which is %" PRId64
                           ": the prefix sees the queries of all sequences as those of one",
                           own->q.batch_stride, own->len_q * own->q.row_stride);
    q->batch_stride = 0;
    return ATT_OK;
}

/* Scales per tensor or per head may be those of the sequences' own keys. */
static void set_scales(const struct steps *steps, const struct att_shared_prefix *prefix,
                       const struct att_attention_args *own, struct att_attention_args *args) {
    int kind = steps->kernel[PREFIX]->variant.knobs.kv_scale;
    bool given = prefix->k_scale || prefix->v_scale;
    if (!given && kind != kv_scale_token && kind == steps->kernel[OWN]->variant.knobs.kv_scale) {
        args->k_scale = own->k_scale;
        args->v_scale = own->v_scale;
        return;
    }
    args->k_scale = prefix->k_scale;
    args->k_scale_batch_stride = prefix->k_scale_batch_stride;
    args->k_scale_head_stride = prefix->k_scale_head_stride;
    args->k_scale_row_stride = prefix->k_scale_row_stride;
    args->v_scale = prefix->v_scale;
    args->v_scale_batch_stride = prefix->v_scale_batch_stride;
    args->v_scale_head_stride = prefix->v_scale_head_stride;
    args->v_scale_row_stride = prefix->v_scale_row_stride;
}

static enum att_status plan_steps(const struct att_args *args, const struct att_shared_prefix *prefix,
                                  struct steps *steps, struct failure *failure) {
    const struct knobs *knobs = &steps->kernel[OWN]->variant.knobs;
    const struct att_attention_args *own = &args->attention;
    bool packed = knobs->layout == layout_ragged, paged = steps->kernel[PREFIX]->variant.knobs.page_size > 0;
    int64_t tokens = own->total_q, dim = knobs->head_dim_v, element = element_size(knobs->dtype_out), count, bytes,
            rows;
    struct shape shape;
    bool empty;
    struct att_tensor q;
    if (arguments_read_sizes(knobs, args, &shape, &empty, failure) != ATT_OK ||
        join_queries(own, packed, &q, failure) != ATT_OK)
        return failure->status;
    if (!packed && __builtin_mul_overflow(own->batch, own->len_q, &tokens))
        tokens = INT64_MAX;
    if (__builtin_mul_overflow(tokens, own->heads, &rows) || __builtin_mul_overflow(rows, dim, &count) ||
        __builtin_mul_overflow(count, 2 * (element + 4), &bytes) || (uint64_t)bytes > SIZE_MAX / 2)
        return failure_set(failure, ATT_INVALID_ARGUMENT,
                           "%" PRId64 " tokens of %" PRId64 " heads are too many together for a workspace", tokens,
                           own->heads);
    size_t o_bytes = round_up((size_t)(count * element)), lse_bytes = round_up((size_t)rows * sizeof(float));
    steps->parts = 2 * (o_bytes + lse_bytes);
    char *workspace = args->workspace;
    float *lse = (float *)(workspace ? workspace + 2 * o_bytes : NULL); /* LSE of both parts */
    for (int i = 0; i < STEPS; i++)
        steps->args[i] = *args;

    struct att_tensor part = {workspace, 0, dim, own->heads * dim};
    steps->args[PREFIX].attention = (struct att_attention_args){.q = q,
                                                                .k = prefix->k,
                                                                .v = prefix->v,
                                                                .o = part,
                                                                .lse = lse,
                                                                .lse_batch_stride = rows,
                                                                .lse_head_stride = tokens,
                                                                .batch = 1,
                                                                .heads = own->heads,
                                                                .kv_heads = own->kv_heads,
                                                                .len_q = tokens,
                                                                .len_kv = prefix->len,
                                                                .scale = own->scale,
                                                                .lengths_kv = prefix->lengths_kv,
                                                                .page_table = prefix->page_table,
                                                                .pages = paged ? prefix->pages : 0};
    set_scales(steps, prefix, own, &steps->args[PREFIX].attention);
    struct att_attention_args *mine = &steps->args[OWN].attention;
    mine->o = (struct att_tensor){workspace ? workspace + o_bytes : NULL, own->len_q * own->heads * dim, dim,
                                  own->heads * dim};
    mine->lse = lse ? (float *)((char *)lse + lse_bytes) : NULL;
    mine->lse_head_stride = tokens;
    mine->lse_batch_stride = packed ? rows : own->len_q;

    /* The queries of a part are (tokens), or equivalently (batch, len_q). */
    struct att_merge_args merge = {.o_parts = {workspace, own->len_q * own->heads * dim, dim, own->heads * dim},
                                   .o_parts_part_stride = (int64_t)(o_bytes / (size_t)element),
                                   .lse_parts = lse,
                                   .lse_parts_part_stride = (int64_t)(lse_bytes / sizeof(float)),
                                   .lse_parts_batch_stride = packed ? rows : own->len_q,
                                   .lse_parts_head_stride = tokens,
                                   .o = own->o,
                                   .lse = own->lse,
                                   .lse_batch_stride = own->lse_batch_stride,
                                   .lse_head_stride = own->lse_head_stride,
                                   .parts = 2,
                                   .batch = packed ? 1 : own->batch,
                                   .heads = own->heads,
                                   .len_q = packed ? tokens : own->len_q};
    steps->args[MERGE].family = ATT_MERGE;
    steps->args[MERGE].merge = merge;
    return ATT_OK;
}

/* Adds the workspaces of the three kernels, which follow the parts: the launches run one after the other, so the
   largest serves all. */
static enum att_status add_workspace(struct steps *steps, struct failure *failure) {
    size_t most = 0;
    for (int i = 0; i < STEPS; i++) {
        size_t bytes;
        enum att_status status = att_workspace_size(steps->kernel[i], &steps->args[i], &bytes);
        if (status != ATT_OK)
            return failure_set(failure, status, "%s: %s", step_names[i], att_message(steps->kernel[i]->session));
        most = bytes > most ? bytes : most;
    }
    steps->workspace = steps->parts + most;
    return ATT_OK;
}

static enum att_status read_steps(att_kernel *kernel, const struct att_args *args,
                                  const struct att_shared_prefix *prefix, struct steps *steps,
                                  struct failure *failure) {
    struct att_args known;
    struct att_shared_prefix known_prefix;
    if (!args || !prefix)
        return failure_set(failure, ATT_INVALID_ARGUMENT, "%s is null", args ? "prefix" : "args");
    if (sized_read(SIZED_ARGS, "args", args, &known, failure) != ATT_OK ||
        sized_read(SIZED_SHARED_PREFIX, "prefix", prefix, &known_prefix, failure) != ATT_OK)
        return failure->status;
    *steps = (struct steps){.kernel = {known_prefix.prefix, kernel, known_prefix.merge}};
    if (check_kernels(steps, failure) != ATT_OK || plan_steps(&known, &known_prefix, steps, failure) != ATT_OK)
        return failure->status;
    return add_workspace(steps, failure);
}

static enum att_status launch_steps(struct steps *steps, const struct att_args *args, void *stream,
                                    struct failure *failure) {
    if (steps->workspace > 0 && (!args->workspace || args->workspace_size < steps->workspace))
        return failure_set(failure, ATT_INVALID_ARGUMENT,
                           "workspace: %s %zu bytes, expected %zu; att_shared_prefix_workspace_size tells how many are "
                           "needed",
                           args->workspace ? "it has" : "it is null with", args->workspace_size, steps->workspace);
    for (int i = 0; i < STEPS; i++) {
        steps->args[i].workspace = args->workspace ? (char *)args->workspace + steps->parts : NULL;
        steps->args[i].workspace_size = steps->workspace - steps->parts;
        enum att_status status = att_launch(steps->kernel[i], &steps->args[i], stream);
        if (status != ATT_OK)
            return failure_set(failure, status, "%s: %s", step_names[i], att_message(steps->kernel[i]->session));
    }
    return ATT_OK;
}

enum att_status att_launch_shared_prefix(att_kernel *kernel, const struct att_args *args,
                                         const struct att_shared_prefix *prefix, void *stream) {
    struct failure failure = {0};
    struct steps steps;
    if (!kernel)
        return ATT_INVALID_ARGUMENT;
    enum att_status status = session_enter(kernel->session);
    if (status != ATT_OK)
        return status;
    if (read_steps(kernel, args, prefix, &steps, &failure) == ATT_OK &&
        launch_steps(&steps, args, stream, &failure) == ATT_OK)
        return ATT_OK;
    return session_fail(kernel->session, &failure);
}

enum att_status att_shared_prefix_workspace_size(att_kernel *kernel, const struct att_args *args,
                                                 const struct att_shared_prefix *prefix, size_t *bytes) {
    struct failure failure = {0};
    struct steps steps;
    if (bytes)
        *bytes = 0;
    if (!kernel)
        return ATT_INVALID_ARGUMENT;
    enum att_status status = session_enter(kernel->session);
    if (status != ATT_OK)
        return status;
    if (!bytes)
        failure_set(&failure, ATT_INVALID_ARGUMENT, "bytes is null");
    else if (read_steps(kernel, args, prefix, &steps, &failure) == ATT_OK) {
        *bytes = steps.workspace;
        return ATT_OK;
    }
    return session_fail(kernel->session, &failure);
}
