#include "launch_arguments.h"

#include <stdlib.h>
#include <string.h>

enum { GAP = 0xFF }; /* between the elements of a parameter in the spread layout: NaN */
enum { CU_SEQLENS_Q, CU_SEQLENS_KV, LENGTHS_OF_KV, PAGE_TABLE, PAGE_INDPTR, PAGE_INDICES, SLOTS, POSITIONS };
_Static_assert(POSITIONS + 1 == ARGUMENT_NUMBERS, "one for each");

enum { Q, K, V }; /* inputs of attention */

/* Errors: the host is out of memory; the library failed with a message. */
static enum att_status out_of_memory(struct failure *failure) {
    return failure_set(failure, ATT_OUT_OF_MEMORY, "out of memory for tensors");
}

static enum att_status say(const struct arguments *a, enum att_status status, const char *what,
                           struct failure *failure) {
    return status == ATT_OK ? ATT_OK : failure_set(failure, status, "%s: %s", what, att_message(a->session));
}

/* --- tensors ------------------------------------------------------------------------------------------------------ */

static enum att_status make_tensor(struct arguments *a, struct argument *argument, enum npy_type type,
                                   enum tensor_layout layout, struct failure *failure) {
    int64_t dim[TENSOR_DIMS];
    memcpy(dim, argument->dim, sizeof dim);
    argument->lengths = &a->workload->lengths;
    lengths_dims(argument->lengths, argument->side, &dim[DIM_BATCH], &dim[argument->rows]);
    if (!tensor_plan(&argument->tensor, type, dim, layout))
        return out_of_memory(failure);
    return say(a, att_alloc(a->session, argument->tensor.bytes, &argument->device), "allocating a tensor", failure);
}

static enum att_status make_tensors(struct arguments *a, enum tensor_layout layout, struct failure *failure) {
    const struct workload *workload = a->workload;
    enum att_status status = ATT_OK;
    for (int i = 0; status == ATT_OK && i < workload->inputs; i++) {
        const struct workload_input *input = &workload->input[i];
        if (i == V && workload_shares_kv(&workload->problem))
            continue; /* V shares the memory of K */
        a->input[i] = (struct argument){.dim = input->dim, .side = input->side, .rows = input->rows};
        status = make_tensor(a, &a->input[i], input->type, layout, failure);
    }
    for (int i = 0; status == ATT_OK && i < workload->outputs; i++) {
        const struct workload_output *output = &workload->output[i];
        a->output[i] = (struct argument){.dim = output->dim, .side = output->side, .rows = output->rows};
        if (output->updates) {
            a->output[i] = a->input[output->updates - workload->input];
            continue;
        }
        status = make_tensor(a, &a->output[i], output->type, layout, failure);
    }
    return status;
}

int64_t argument_place(const struct argument *argument, int64_t i) {
    int64_t index[TENSOR_DIMS], place = 0;
    for (int d = TENSOR_DIMS - 1; d >= 0; d--) {
        index[d] = i % argument->dim[d];
        i /= argument->dim[d];
    }
    if (!lengths_locate(argument->lengths, argument->side, &index[DIM_BATCH], &index[argument->rows]))
        return -1;
    for (int d = 0; d < TENSOR_DIMS; d++)
        place += index[d] * argument->tensor.stride[d];
    return place;
}

/* --- parameters and numbers --------------------------------------------------------------------------------------- */

/* Makes one parameter of the mask or the score. In the spread layout the elements of a tensor have gaps between
   them. */
static enum att_status make_param(struct arguments *a, int number, enum tensor_layout layout, struct failure *failure) {
    const struct formula_param *declared = &a->workload->params->formulas.scope.param[number];
    const struct param_value *value = &a->workload->params->param[number];
    struct att_param *param = &a->param[number];
    *param = (struct att_param){.name = declared->name, .type = value->type};
    if (declared->dims == 0) {
        param->number = value->value[0];
        return ATT_OK;
    }
    int64_t step = layout == LAYOUT_SPREAD ? 2 : 1, next = step;
    for (int d = declared->dims - 1; d >= 0; d--) {
        param->size[d] = value->size[d];
        param->stride[d] = next;
        next *= value->size[d];
    }
    size_t bytes = (size_t)(value->count * step * value->bytes);
    unsigned char *staging = malloc(bytes + 1);
    if (!staging)
        return out_of_memory(failure);
    memset(staging, GAP, bytes);
    for (int64_t i = 0; i < value->count; i++)
        params_encode(value, i, staging + i * step * value->bytes);
    enum att_status status = att_alloc(a->session, bytes, &a->param_memory[number]);
    if (status == ATT_OK && bytes)
        status = att_copy_in(a->session, a->param_memory[number], staging, bytes);
    free(staging);
    param->data = a->param_memory[number];
    return say(a, status, "making a tensor of the mask or the score", failure);
}

static enum att_status make_params(struct arguments *a, enum tensor_layout layout, struct failure *failure) {
    const struct params *params = a->workload->params;
    enum att_status status = ATT_OK;
    for (int i = 0; status == ATT_OK && params && i < params->formulas.scope.count; i++)
        status = make_param(a, i, layout, failure);
    return status;
}

/* Copies the arrays that the layout needs to the device. */
static enum att_status make_numbers(struct arguments *a, struct failure *failure) {
    const struct lengths *l = &a->workload->lengths;
    const struct append_places *places = &a->workload->places;
    const struct shape *shape = &a->workload->shape;
    bool append = a->workload->problem.family == family_append_kv, dense = l->layout <= layout_dense;
    bool ragged = l->layout == layout_ragged, paged = !dense && l->page_size > 0;
    bool csr = l->page_table == page_table_csr, positions = places->slot && a->workload->problem.rope > rope_none;
    const struct {
        bool wanted;
        const void *from;
        int64_t count;
        size_t size;
    } arrays[ARGUMENT_NUMBERS] = {
        [CU_SEQLENS_Q] = {ragged, l->cu_seqlens_q, l->batch + 1, sizeof(int32_t)},
        [CU_SEQLENS_KV] = {ragged && !paged && !append, l->cu_seqlens_kv, l->batch + 1, sizeof(int32_t)},
        [LENGTHS_OF_KV] = {!dense && (!ragged || paged || append), l->lengths_kv, l->batch, sizeof(int32_t)},
        [PAGE_TABLE] = {paged && !csr, l->table, l->batch * l->columns, sizeof(int32_t)},
        [PAGE_INDPTR] = {paged && csr, l->indptr, l->batch + 1, sizeof(int32_t)},
        [PAGE_INDICES] = {paged && csr, l->indices, paged ? l->indptr[l->batch] : 0, sizeof(int32_t)},
        [SLOTS] = {places->slot != NULL, places->slot, shape->batch * shape->len_q, sizeof(int64_t)},
        [POSITIONS] = {positions, places->position, shape->batch * shape->len_q, sizeof(int32_t)},
    };
    for (int i = 0; i < ARGUMENT_NUMBERS; i++) {
        size_t bytes = (size_t)arrays[i].count * arrays[i].size;
        if (!arrays[i].wanted)
            continue;
        enum att_status status = att_alloc(a->session, bytes, &a->numbers[i]);
        if (status == ATT_OK && bytes)
            status = att_copy_in(a->session, a->numbers[i], arrays[i].from, bytes);
        if (status != ATT_OK)
            return say(a, status, "making the lengths of sequences", failure);
    }
    return ATT_OK;
}

/* --- arguments ---------------------------------------------------------------------------------------------------- */

static struct att_tensor tensor_of(const struct argument *argument) {
    const int64_t *stride = argument->tensor.stride;
    return (struct att_tensor){argument->device, stride[DIM_BATCH], stride[DIM_HEAD], stride[DIM_ROW]};
}

/* Finds an input or an output by its name; all zero when the problem has no such tensor. */
static struct argument find_tensor(const struct arguments *a, const char *name, bool output) {
    const struct workload *w = a->workload;
    for (int i = 0; i < (output ? w->outputs : w->inputs); i++)
        if (strcmp(output ? w->output[i].name : w->input[i].name, name) == 0)
            return output ? a->output[i] : a->input[i];
    return (struct argument){0};
}

static void fill_sequences(const struct arguments *a, struct att_attention_args *args) {
    const struct lengths *l = &a->workload->lengths;
    args->cu_seqlens_q = a->numbers[CU_SEQLENS_Q];
    args->cu_seqlens_kv = a->numbers[CU_SEQLENS_KV];
    args->lengths_kv = a->numbers[LENGTHS_OF_KV];
    args->page_table = a->numbers[PAGE_TABLE];
    args->page_table_row_stride = a->numbers[PAGE_TABLE] ? l->columns : 0;
    args->page_indptr = a->numbers[PAGE_INDPTR];
    args->page_indices = a->numbers[PAGE_INDICES];
    args->pages = l->pages;
    args->total_q = l->layout == layout_ragged ? l->cu_seqlens_q[l->batch] : 0;
    args->total_kv = a->numbers[CU_SEQLENS_KV] ? l->cu_seqlens_kv[l->batch] : 0;
}

static void fill_attention(struct arguments *a) {
    const struct shape *shape = &a->workload->shape;
    const struct argument *lse = &a->output[1];
    const struct argument k_scale = find_tensor(a, "k_scale", false), v_scale = find_tensor(a, "v_scale", false);
    const struct argument k_new = find_tensor(a, "k_new", false), v_new = find_tensor(a, "v_new", false);
    const struct argument cosine = find_tensor(a, "rope_cos", false), sine = find_tensor(a, "rope_sin", false);
    bool token = a->workload->problem.kv_scale == kv_scale_token; /* scales of other kinds have no strides */
    bool shared = workload_shares_kv(&a->workload->problem);
    a->args.family = ATT_ATTENTION_FORWARD;
    a->args.attention =
        (struct att_attention_args){.q = tensor_of(&a->input[Q]),
                                    .k = tensor_of(&a->input[K]),
                                    .v = tensor_of(&a->input[shared ? K : V]),
                                    .o = tensor_of(&a->output[0]),
                                    .lse = lse->device,
                                    .lse_batch_stride = lse->tensor.stride[DIM_BATCH],
                                    .lse_head_stride = lse->tensor.stride[DIM_HEAD],
                                    .batch = shape->batch,
                                    .heads = shape->heads,
                                    .kv_heads = shape->kv_heads,
                                    .len_q = shape->len_q,
                                    .len_kv = shape->len_kv,
                                    .scale = (float)a->workload->scale,
                                    .dropout_p = (float)a->workload->dropout.p,
                                    .dropout_seed = a->workload->dropout.seed,
                                    .dropout_offset = a->workload->dropout.offset,
                                    .params = a->param,
                                    .param_count = a->workload->params->formulas.scope.count,
                                    .k_scale = k_scale.device,
                                    .v_scale = v_scale.device,
                                    .k_scale_batch_stride = token ? k_scale.tensor.stride[DIM_BATCH] : 0,
                                    .k_scale_head_stride = token ? k_scale.tensor.stride[DIM_HEAD] : 0,
                                    .k_scale_row_stride = token ? k_scale.tensor.stride[DIM_ROW] : 0,
                                    .v_scale_batch_stride = token ? v_scale.tensor.stride[DIM_BATCH] : 0,
                                    .v_scale_head_stride = token ? v_scale.tensor.stride[DIM_HEAD] : 0,
                                    .v_scale_row_stride = token ? v_scale.tensor.stride[DIM_ROW] : 0,
                                    .k_new = tensor_of(&k_new),
                                    .v_new = tensor_of(&v_new),
                                    .rope_cos = cosine.device,
                                    .rope_sin = sine.device,
                                    .rope_row_stride = cosine.tensor.stride[DIM_ROW],
                                    .rope_rows = cosine.tensor.dim[DIM_ROW]};
    fill_sequences(a, &a->args.attention);
}

static void fill_append(struct arguments *a) {
    const struct shape *shape = &a->workload->shape;
    const struct lengths *l = &a->workload->lengths;
    const struct knobs *problem = &a->workload->problem;
    struct argument q = find_tensor(a, "q", false), k = find_tensor(a, "k", false), v = find_tensor(a, "v", false);
    struct argument q_out = find_tensor(a, "q_out", true), k_cache = find_tensor(a, "k_cache", true);
    struct argument v_cache = find_tensor(a, "v_cache", true), cosine = find_tensor(a, "rope_cos", false);
    struct argument sine = find_tensor(a, "rope_sin", false);
    bool written = problem->kv_scale == kv_scale_token;
    struct argument k_scale = find_tensor(a, "k_scale", written), v_scale = find_tensor(a, "v_scale", written);
    a->args.family = ATT_APPEND_KV;
    a->args.append =
        (struct att_append_args){.q = tensor_of(&q),
                                 .q_out = tensor_of(&q_out),
                                 .k = tensor_of(&k),
                                 .v = tensor_of(&v),
                                 .k_cache = tensor_of(&k_cache),
                                 .v_cache = tensor_of(&v_cache),
                                 .batch = shape->batch,
                                 .heads = shape->heads,
                                 .kv_heads = shape->kv_heads,
                                 .len_q = shape->len_q,
                                 .len_kv = shape->len_kv,
                                 .cu_seqlens_q = a->numbers[CU_SEQLENS_Q],
                                 .total_q = l->layout == layout_ragged ? l->cu_seqlens_q[l->batch] : 0,
                                 .lengths_kv = a->numbers[LENGTHS_OF_KV],
                                 .page_table = a->numbers[PAGE_TABLE],
                                 .page_table_row_stride = a->numbers[PAGE_TABLE] ? l->columns : 0,
                                 .page_indptr = a->numbers[PAGE_INDPTR],
                                 .page_indices = a->numbers[PAGE_INDICES],
                                 .pages = a->workload->places.slot ? append_blocks(problem, shape) : l->pages,
                                 .slots = a->numbers[SLOTS],
                                 .positions = a->numbers[POSITIONS],
                                 .k_scale = k_scale.device,
                                 .v_scale = v_scale.device,
                                 .k_scale_batch_stride = k_scale.tensor.stride[DIM_BATCH],
                                 .k_scale_head_stride = k_scale.tensor.stride[DIM_HEAD],
                                 .k_scale_row_stride = k_scale.tensor.stride[DIM_ROW],
                                 .v_scale_batch_stride = v_scale.tensor.stride[DIM_BATCH],
                                 .v_scale_head_stride = v_scale.tensor.stride[DIM_HEAD],
                                 .v_scale_row_stride = v_scale.tensor.stride[DIM_ROW],
                                 .rope_cos = cosine.device,
                                 .rope_sin = sine.device,
                                 .rope_row_stride = cosine.tensor.stride[DIM_ROW],
                                 .rope_rows = cosine.tensor.dim[DIM_ROW]};
}

static void fill_softmax(struct arguments *a) {
    const struct shape *shape = &a->workload->shape;
    a->args.family = ATT_SOFTMAX;
    a->args.softmax = (struct att_softmax_args){.x = a->input[0].device,
                                                .y = a->output[0].device,
                                                .x_row_stride = a->input[0].tensor.stride[DIM_ROW],
                                                .y_row_stride = a->output[0].tensor.stride[DIM_ROW],
                                                .rows = shape->rows,
                                                .cols = shape->cols};
}

static void fill_merge(struct arguments *a) {
    const struct shape *shape = &a->workload->shape;
    const struct argument *parts = &a->input[0], *lse_parts = &a->input[1], *lse = &a->output[1];
    a->args.family = ATT_MERGE;
    a->args.merge = (struct att_merge_args){.o_parts = tensor_of(parts),
                                            .o_parts_part_stride = parts->tensor.stride[DIM_PART],
                                            .lse_parts = lse_parts->device,
                                            .lse_parts_part_stride = lse_parts->tensor.stride[DIM_PART],
                                            .lse_parts_batch_stride = lse_parts->tensor.stride[DIM_BATCH],
                                            .lse_parts_head_stride = lse_parts->tensor.stride[DIM_HEAD],
                                            .o = tensor_of(&a->output[0]),
                                            .lse = lse->device,
                                            .lse_batch_stride = lse->tensor.stride[DIM_BATCH],
                                            .lse_head_stride = lse->tensor.stride[DIM_HEAD],
                                            .parts = shape->parts,
                                            .batch = shape->batch,
                                            .heads = shape->heads,
                                            .len_q = shape->len_q};
}

/* Fills the gradients of the parameters that the score reads; returns their number. */
static int fill_param_gradients(struct arguments *a) {
    const struct formula_set *set = &a->workload->params->formulas;
    int count = 0;
    for (int i = 0; i < set->scope.count; i++) {
        struct att_param_gradient *gradient = &a->param_gradient[count];
        int dims = set->scope.param[i].dims;
        if (!(set->wants.params >> i & 1))
            continue;
        struct argument block = find_tensor(a, a->workload->params->gradient[i], true);
        *gradient = (struct att_param_gradient){.name = set->scope.param[i].name, .data = block.device};
        for (int d = 0; d < dims; d++) {
            gradient->size[d] = a->workload->params->param[i].size[d];
            gradient->stride[d] = block.tensor.stride[TENSOR_DIMS - dims + d];
        }
        count++;
    }
    return count;
}

static void fill_attention_backward(struct arguments *a) {
    const struct shape *shape = &a->workload->shape;
    enum { D_O = V + 1, D_LSE, O, LSE }; /* further inputs */
    const struct argument *in = a->input;
    const struct argument dq = find_tensor(a, "dq", true), dk = find_tensor(a, "dk", true);
    const struct argument dv = find_tensor(a, "dv", true), d_sinks = find_tensor(a, "d_sinks", true);
    a->args.family = ATT_ATTENTION_BACKWARD;
    a->args.attention_backward =
        (struct att_attention_backward_args){.d_o = tensor_of(&in[D_O]),
                                             .d_lse = in[D_LSE].device,
                                             .d_lse_batch_stride = in[D_LSE].tensor.stride[DIM_BATCH],
                                             .d_lse_head_stride = in[D_LSE].tensor.stride[DIM_HEAD],
                                             .dq = tensor_of(&dq),
                                             .dk = tensor_of(&dk),
                                             .dv = tensor_of(&dv),
                                             .d_sinks = d_sinks.device,
                                             .param_gradients = a->param_gradient,
                                             .param_gradient_count = fill_param_gradients(a),
                                             .forward = {.q = tensor_of(&in[Q]),
                                                         .k = tensor_of(&in[K]),
                                                         .v = tensor_of(&in[V]),
                                                         .o = tensor_of(&in[O]),
                                                         .lse = in[LSE].device,
                                                         .lse_batch_stride = in[LSE].tensor.stride[DIM_BATCH],
                                                         .lse_head_stride = in[LSE].tensor.stride[DIM_HEAD],
                                                         .batch = shape->batch,
                                                         .heads = shape->heads,
                                                         .kv_heads = shape->kv_heads,
                                                         .len_q = shape->len_q,
                                                         .len_kv = shape->len_kv,
                                                         .scale = (float)a->workload->scale,
                                                         .dropout_p = (float)a->workload->dropout.p,
                                                         .dropout_seed = a->workload->dropout.seed,
                                                         .dropout_offset = a->workload->dropout.offset,
                                                         .params = a->param,
                                                         .param_count = a->workload->params->formulas.scope.count}};
    fill_sequences(a, &a->args.attention_backward.forward);
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

enum att_status arguments_make(struct arguments *a, att_session *session, const struct workload *workload,
                               enum tensor_layout layout, struct failure *failure) {
    static void (*const fill[])(struct arguments *) = {[family_softmax] = fill_softmax,
                                                       [family_attention_forward] = fill_attention,
                                                       [family_merge] = fill_merge,
                                                       [family_attention_backward] = fill_attention_backward,
                                                       [family_append_kv] = fill_append};
    *a = (struct arguments){.session = session, .workload = workload, .args = {.size = sizeof a->args}};
    enum att_status status = make_tensors(a, layout, failure);
    if (status == ATT_OK)
        status = make_params(a, layout, failure);
    if (status == ATT_OK)
        status = make_numbers(a, failure);
    if (status == ATT_OK)
        fill[workload->problem.family](a);
    return status;
}

void arguments_free(struct arguments *a) {
    if (!a->session)
        return;
    for (int i = 0; i < WORKLOAD_INPUTS; i++)
        att_free(a->session, a->input[i].device);
    for (int i = 0; i < WORKLOAD_OUTPUTS; i++)
        if (!a->workload->output[i].updates)
            att_free(a->session, a->output[i].device);
    for (int i = 0; i < FORMULA_PARAMS; i++)
        att_free(a->session, a->param_memory[i]);
    for (int i = 0; i < ARGUMENT_NUMBERS; i++)
        att_free(a->session, a->numbers[i]);
    *a = (struct arguments){0};
}
