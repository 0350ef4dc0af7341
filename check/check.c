#include "check.h"
#include "session.h"
#include "tolerance.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Inputs' gaps and the workspace start as NaN, so that what is read there
   spoils the answer. Outputs start as bytes that are a large number in every
   type: NaN would pass where NaN is expected. */
enum { POISON_INPUT = 0xFF, POISON_OUTPUT = 0x7B };
enum {
    CU_SEQLENS_Q,
    CU_SEQLENS_KV,
    LENGTHS_OF_KV,
    PAGE_TABLE,
    PAGE_INDPTR,
    PAGE_INDICES,
    SLOTS,
    POSITIONS,
    RUN_NUMBERS
};

enum { Q, K, V }; /* inputs of attention */

struct block { /* one tensor on the device */
    struct tensor tensor;
    const struct lengths *lengths;
    const int64_t *dim; /* of the workload's tensor, of which this is the part that sequences have */
    enum lengths_side side;
    enum tensor_dim rows;
    void *device;
    unsigned char *host; /* tensor.bytes of staging */
};

struct run {
    att_session *session;
    att_kernel *kernel;
    const struct workload *workload;
    const struct check_options *options;
    struct check_result *result;
    struct block input[WORKLOAD_INPUTS], output[WORKLOAD_OUTPUTS];
    struct att_param param[FORMULA_PARAMS];
    struct att_param_gradient param_gradient[FORMULA_PARAMS];
    void *param_memory[FORMULA_PARAMS];
    struct att_args args;
    void *numbers[RUN_NUMBERS]; /* of sequences, on the device: lengths and page numbers */
    void *workspace;
};

static bool fail(struct run *run, enum att_status status, const char *what) {
    run->result->status = status;
    text_print(&run->result->report, "%s: %s\n", what, att_message(run->session));
    return false;
}

static bool out_of_memory(struct run *run) {
    run->result->status = ATT_OUT_OF_MEMORY;
    text_print(&run->result->report, "out of memory for tensors\n");
    return false;
}

/* --- to the device ------------------------------------------------------------------------------------------------ */

/* `block` says which tensor of the workload it is. */
static bool make_block(struct run *run, struct block *block, enum npy_type type, int poison) {
    int64_t dim[TENSOR_DIMS];
    memcpy(dim, block->dim, sizeof dim);
    lengths_dims(block->lengths, block->side, &dim[DIM_BATCH], &dim[block->rows]);
    if (!tensor_plan(&block->tensor, type, dim, run->options->layout) ||
        !(block->host = malloc(block->tensor.bytes ? block->tensor.bytes : 1)))
        return out_of_memory(run);
    memset(block->host, poison, block->tensor.bytes);
    enum att_status status = att_alloc(run->session, block->tensor.bytes, &block->device);
    return status == ATT_OK || fail(run, status, "allocating a tensor");
}

/* Element i of the workload's tensor; null when no sequence has it. */
static unsigned char *element(const struct block *block, int64_t i) {
    int64_t index[TENSOR_DIMS], place = 0;
    for (int d = TENSOR_DIMS - 1; d >= 0; d--) {
        index[d] = i % block->dim[d];
        i /= block->dim[d];
    }
    if (!lengths_locate(block->lengths, block->side, &index[DIM_BATCH], &index[block->rows]))
        return NULL;
    for (int d = 0; d < TENSOR_DIMS; d++)
        place += index[d] * block->tensor.stride[d];
    return block->host + (size_t)place * npy_element_size(block->tensor.type);
}

static bool send(struct run *run, const struct block *block) {
    if (block->tensor.bytes == 0)
        return true;
    enum att_status status = att_copy_in(run->session, block->device, block->host, block->tensor.bytes);
    return status == ATT_OK || fail(run, status, "copying a tensor to the device");
}

static bool make_blocks(struct run *run) {
    const struct workload *workload = run->workload;
    for (int i = 0; i < workload->inputs; i++) {
        const struct workload_input *input = &workload->input[i];
        if (i == V && workload_shares_kv(&workload->problem))
            continue; /* V is in K */
        run->input[i] =
            (struct block){.lengths = &workload->lengths, .dim = input->dim, .side = input->side, .rows = input->rows};
        if (!make_block(run, &run->input[i], input->type, POISON_INPUT))
            return false;
        for (int64_t k = 0; k < input->count; k++) {
            unsigned char *bits = element(&run->input[i], k);
            if (bits)
                element_encode(input->type, input->value[k], bits);
        }
        if (!send(run, &run->input[i]))
            return false;
    }
    for (int i = 0; i < workload->outputs; i++) {
        const struct workload_output *output = &workload->output[i];
        run->output[i] = (struct block){
            .lengths = &workload->lengths, .dim = output->dim, .side = output->side, .rows = output->rows};
        if (!make_block(run, &run->output[i], output->type, POISON_OUTPUT) || !send(run, &run->output[i]))
            return false;
    }
    return true;
}

/* A tensor of the mask or the score; in the spread layout its elements lie apart. */
static bool make_param(struct run *run, int number) {
    const struct formula_param *declared = &run->workload->params->formulas.scope.param[number];
    const struct param_value *value = &run->workload->params->param[number];
    struct att_param *param = &run->param[number];
    *param = (struct att_param){.name = declared->name, .type = value->type};
    if (declared->dims == 0) {
        param->number = value->value[0];
        return true;
    }
    int64_t step = run->options->layout == LAYOUT_SPREAD ? 2 : 1, next = step;
    for (int d = declared->dims - 1; d >= 0; d--) {
        param->size[d] = value->size[d];
        param->stride[d] = next;
        next *= value->size[d];
    }
    size_t bytes = (size_t)(value->count * step * value->bytes);
    unsigned char *staging = malloc(bytes + 1);
    if (!staging)
        return out_of_memory(run);
    memset(staging, POISON_INPUT, bytes);
    for (int64_t i = 0; i < value->count; i++)
        params_encode(value, i, staging + i * step * value->bytes);
    enum att_status status = att_alloc(run->session, bytes, &run->param_memory[number]);
    if (status == ATT_OK && bytes)
        status = att_copy_in(run->session, run->param_memory[number], staging, bytes);
    free(staging);
    param->data = run->param_memory[number];
    return status == ATT_OK || fail(run, status, "making a tensor of the mask or the score");
}

static bool make_params(struct run *run) {
    const struct params *params = run->workload->params;
    bool good = true;
    for (int i = 0; good && params && i < params->formulas.scope.count; i++)
        good = make_param(run, i);
    return good;
}

/* The arrays that the layout has, on the device. */
static bool make_numbers(struct run *run) {
    const struct lengths *l = &run->workload->lengths;
    const struct append_places *places = &run->workload->places;
    const struct shape *shape = &run->workload->shape;
    bool append = run->workload->problem.family == family_append_kv, dense = l->layout <= layout_dense;
    bool ragged = l->layout == layout_ragged, paged = !dense && l->page_size > 0;
    bool csr = l->page_table == page_table_csr, positions = places->slot && run->workload->problem.rope > rope_none;
    const struct {
        bool wanted;
        const void *from;
        int64_t count;
        size_t size;
    } arrays[RUN_NUMBERS] = {
        [CU_SEQLENS_Q] = {ragged, l->cu_seqlens_q, l->batch + 1, sizeof(int32_t)},
        [CU_SEQLENS_KV] = {ragged && !paged && !append, l->cu_seqlens_kv, l->batch + 1, sizeof(int32_t)},
        [LENGTHS_OF_KV] = {!dense && (!ragged || paged || append), l->lengths_kv, l->batch, sizeof(int32_t)},
        [PAGE_TABLE] = {paged && !csr, l->table, l->batch * l->columns, sizeof(int32_t)},
        [PAGE_INDPTR] = {paged && csr, l->indptr, l->batch + 1, sizeof(int32_t)},
        [PAGE_INDICES] = {paged && csr, l->indices, paged ? l->indptr[l->batch] : 0, sizeof(int32_t)},
        [SLOTS] = {places->slot != NULL, places->slot, shape->batch * shape->len_q, sizeof(int64_t)},
        [POSITIONS] = {positions, places->position, shape->batch * shape->len_q, sizeof(int32_t)},
    };
    for (int i = 0; i < RUN_NUMBERS; i++) {
        size_t bytes = (size_t)arrays[i].count * arrays[i].size;
        if (!arrays[i].wanted)
            continue;
        enum att_status status = att_alloc(run->session, bytes, &run->numbers[i]);
        if (status == ATT_OK && bytes)
            status = att_copy_in(run->session, run->numbers[i], arrays[i].from, bytes);
        if (status != ATT_OK)
            return fail(run, status, "making the lengths of sequences");
    }
    return true;
}

static struct att_tensor argument(const struct block *block) {
    const int64_t *stride = block->tensor.stride;
    return (struct att_tensor){block->device, stride[DIM_BATCH], stride[DIM_HEAD], stride[DIM_ROW]};
}

/* Of an input or an output by its name; without memory when the problem has no such tensor. */
static struct block find_block(const struct run *run, const char *name, bool output) {
    const struct workload *w = run->workload;
    for (int i = 0; i < (output ? w->outputs : w->inputs); i++)
        if (strcmp(output ? w->output[i].name : w->input[i].name, name) == 0)
            return output ? run->output[i] : run->input[i];
    return (struct block){0};
}

static void fill_sequences(const struct run *run, struct att_attention_args *args) {
    const struct lengths *l = &run->workload->lengths;
    args->cu_seqlens_q = run->numbers[CU_SEQLENS_Q];
    args->cu_seqlens_kv = run->numbers[CU_SEQLENS_KV];
    args->lengths_kv = run->numbers[LENGTHS_OF_KV];
    args->page_table = run->numbers[PAGE_TABLE];
    args->page_table_row_stride = run->numbers[PAGE_TABLE] ? l->columns : 0;
    args->page_indptr = run->numbers[PAGE_INDPTR];
    args->page_indices = run->numbers[PAGE_INDICES];
    args->pages = l->pages;
    args->total_q = l->layout == layout_ragged ? l->cu_seqlens_q[l->batch] : 0;
    args->total_kv = run->numbers[CU_SEQLENS_KV] ? l->cu_seqlens_kv[l->batch] : 0;
}

static void fill_attention(struct run *run) {
    const struct shape *shape = &run->workload->shape;
    const struct block *lse = &run->output[1];
    const struct block k_scale = find_block(run, "k_scale", false), v_scale = find_block(run, "v_scale", false);
    bool token = run->workload->problem.kv_scale == kv_scale_token; /* the others have no strides */
    bool shared = workload_shares_kv(&run->workload->problem);
    run->args.family = ATT_ATTENTION_FORWARD;
    run->args.attention =
        (struct att_attention_args){.q = argument(&run->input[Q]),
                                    .k = argument(&run->input[K]),
                                    .v = argument(&run->input[shared ? K : V]),
                                    .o = argument(&run->output[0]),
                                    .lse = run->options->without_lse ? NULL : lse->device,
                                    .lse_batch_stride = lse->tensor.stride[DIM_BATCH],
                                    .lse_head_stride = lse->tensor.stride[DIM_HEAD],
                                    .batch = shape->batch,
                                    .heads = shape->heads,
                                    .kv_heads = shape->kv_heads,
                                    .len_q = shape->len_q,
                                    .len_kv = shape->len_kv,
                                    .scale = (float)run->workload->scale,
                                    .dropout_p = (float)run->workload->dropout.p,
                                    .dropout_seed = run->workload->dropout.seed,
                                    .dropout_offset = run->workload->dropout.offset,
                                    .params = run->param,
                                    .param_count = run->workload->params->formulas.scope.count,
                                    .k_scale = k_scale.device,
                                    .v_scale = v_scale.device,
                                    .k_scale_batch_stride = token ? k_scale.tensor.stride[DIM_BATCH] : 0,
                                    .k_scale_head_stride = token ? k_scale.tensor.stride[DIM_HEAD] : 0,
                                    .k_scale_row_stride = token ? k_scale.tensor.stride[DIM_ROW] : 0,
                                    .v_scale_batch_stride = token ? v_scale.tensor.stride[DIM_BATCH] : 0,
                                    .v_scale_head_stride = token ? v_scale.tensor.stride[DIM_HEAD] : 0,
                                    .v_scale_row_stride = token ? v_scale.tensor.stride[DIM_ROW] : 0};
    fill_sequences(run, &run->args.attention);
}

static void fill_append(struct run *run) {
    const struct shape *shape = &run->workload->shape;
    const struct lengths *l = &run->workload->lengths;
    const struct knobs *problem = &run->workload->problem;
    struct block q = find_block(run, "q", false), k = find_block(run, "k", false), v = find_block(run, "v", false);
    struct block q_out = find_block(run, "q_out", true), k_cache = find_block(run, "k_cache", true);
    struct block v_cache = find_block(run, "v_cache", true), cosine = find_block(run, "rope_cos", false);
    struct block sine = find_block(run, "rope_sin", false);
    bool written = problem->kv_scale == kv_scale_token;
    struct block k_scale = find_block(run, "k_scale", written), v_scale = find_block(run, "v_scale", written);
    run->args.family = ATT_APPEND_KV;
    run->args.append =
        (struct att_append_args){.q = argument(&q),
                                 .q_out = argument(&q_out),
                                 .k = argument(&k),
                                 .v = argument(&v),
                                 .k_cache = argument(&k_cache),
                                 .v_cache = argument(&v_cache),
                                 .batch = shape->batch,
                                 .heads = shape->heads,
                                 .kv_heads = shape->kv_heads,
                                 .len_q = shape->len_q,
                                 .len_kv = shape->len_kv,
                                 .cu_seqlens_q = run->numbers[CU_SEQLENS_Q],
                                 .total_q = l->layout == layout_ragged ? l->cu_seqlens_q[l->batch] : 0,
                                 .lengths_kv = run->numbers[LENGTHS_OF_KV],
                                 .page_table = run->numbers[PAGE_TABLE],
                                 .page_table_row_stride = run->numbers[PAGE_TABLE] ? l->columns : 0,
                                 .page_indptr = run->numbers[PAGE_INDPTR],
                                 .page_indices = run->numbers[PAGE_INDICES],
                                 .pages = run->workload->places.slot ? append_blocks(problem, shape) : l->pages,
                                 .slots = run->numbers[SLOTS],
                                 .positions = run->numbers[POSITIONS],
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
                                 .rope_rows = cosine.device ? shape->len_kv : 0};
}

static void fill_softmax(struct run *run) {
    const struct shape *shape = &run->workload->shape;
    run->args.family = ATT_SOFTMAX;
    run->args.softmax = (struct att_softmax_args){.x = run->input[0].device,
                                                  .y = run->output[0].device,
                                                  .x_row_stride = run->input[0].tensor.stride[DIM_ROW],
                                                  .y_row_stride = run->output[0].tensor.stride[DIM_ROW],
                                                  .rows = shape->rows,
                                                  .cols = shape->cols};
}

static void fill_merge(struct run *run) {
    const struct shape *shape = &run->workload->shape;
    const struct block *parts = &run->input[0], *lse_parts = &run->input[1], *lse = &run->output[1];
    run->args.family = ATT_MERGE;
    run->args.merge = (struct att_merge_args){.o_parts = argument(parts),
                                              .o_parts_part_stride = parts->tensor.stride[DIM_PART],
                                              .lse_parts = lse_parts->device,
                                              .lse_parts_part_stride = lse_parts->tensor.stride[DIM_PART],
                                              .lse_parts_batch_stride = lse_parts->tensor.stride[DIM_BATCH],
                                              .lse_parts_head_stride = lse_parts->tensor.stride[DIM_HEAD],
                                              .o = argument(&run->output[0]),
                                              .lse = run->options->without_lse ? NULL : lse->device,
                                              .lse_batch_stride = lse->tensor.stride[DIM_BATCH],
                                              .lse_head_stride = lse->tensor.stride[DIM_HEAD],
                                              .parts = shape->parts,
                                              .batch = shape->batch,
                                              .heads = shape->heads,
                                              .len_q = shape->len_q};
}

/* The gradients of what the score reads; returns how many. */
static int fill_param_gradients(struct run *run) {
    const struct formula_set *set = &run->workload->params->formulas;
    int count = 0;
    for (int i = 0; i < set->scope.count; i++) {
        struct att_param_gradient *gradient = &run->param_gradient[count];
        int dims = set->scope.param[i].dims;
        if (!(set->wants.params >> i & 1))
            continue;
        struct block block = find_block(run, run->workload->params->gradient[i], true);
        *gradient = (struct att_param_gradient){.name = set->scope.param[i].name, .data = block.device};
        for (int d = 0; d < dims; d++) {
            gradient->size[d] = run->workload->params->param[i].size[d];
            gradient->stride[d] = block.tensor.stride[TENSOR_DIMS - dims + d];
        }
        count++;
    }
    return count;
}

static void fill_attention_backward(struct run *run) {
    const struct shape *shape = &run->workload->shape;
    enum { D_O = V + 1, D_LSE, O, LSE }; /* further inputs */
    const struct block *in = run->input;
    const struct block dq = find_block(run, "dq", true), dk = find_block(run, "dk", true);
    const struct block dv = find_block(run, "dv", true), d_sinks = find_block(run, "d_sinks", true);
    run->args.family = ATT_ATTENTION_BACKWARD;
    run->args.attention_backward =
        (struct att_attention_backward_args){.d_o = argument(&in[D_O]),
                                             .d_lse = in[D_LSE].device,
                                             .d_lse_batch_stride = in[D_LSE].tensor.stride[DIM_BATCH],
                                             .d_lse_head_stride = in[D_LSE].tensor.stride[DIM_HEAD],
                                             .dq = argument(&dq),
                                             .dk = argument(&dk),
                                             .dv = argument(&dv),
                                             .d_sinks = d_sinks.device,
                                             .param_gradients = run->param_gradient,
                                             .param_gradient_count = fill_param_gradients(run),
                                             .forward = {.q = argument(&in[Q]),
                                                         .k = argument(&in[K]),
                                                         .v = argument(&in[V]),
                                                         .o = argument(&in[O]),
                                                         .lse = in[LSE].device,
                                                         .lse_batch_stride = in[LSE].tensor.stride[DIM_BATCH],
                                                         .lse_head_stride = in[LSE].tensor.stride[DIM_HEAD],
                                                         .batch = shape->batch,
                                                         .heads = shape->heads,
                                                         .kv_heads = shape->kv_heads,
                                                         .len_q = shape->len_q,
                                                         .len_kv = shape->len_kv,
                                                         .scale = (float)run->workload->scale,
                                                         .dropout_p = (float)run->workload->dropout.p,
                                                         .dropout_seed = run->workload->dropout.seed,
                                                         .dropout_offset = run->workload->dropout.offset,
                                                         .params = run->param,
                                                         .param_count = run->workload->params->formulas.scope.count}};
    fill_sequences(run, &run->args.attention_backward.forward);
}

static bool make_arguments(struct run *run) {
    static void (*const fill[])(struct run *) = {[family_softmax] = fill_softmax,
                                                 [family_attention_forward] = fill_attention,
                                                 [family_merge] = fill_merge,
                                                 [family_attention_backward] = fill_attention_backward,
                                                 [family_append_kv] = fill_append};
    if (!make_numbers(run))
        return false;
    fill[run->workload->problem.family](run);
    size_t size = 0;
    enum att_status status = att_workspace_size(run->kernel, &run->args, &size);
    if (status != ATT_OK)
        return fail(run, status, "sizing the workspace");
    if (size == 0)
        return true;
    void *poison = malloc(size);
    if (!poison)
        return out_of_memory(run);
    memset(poison, POISON_INPUT, size);
    status = att_alloc(run->session, size, &run->workspace);
    if (status == ATT_OK)
        status = att_copy_in(run->session, run->workspace, poison, size);
    free(poison);
    run->args.workspace = run->workspace;
    run->args.workspace_size = size;
    return status == ATT_OK || fail(run, status, "making the workspace");
}

/* --- running ------------------------------------------------------------------------------------------------------ */

/* Launch `count` times between two marks of the device's timer. */
static bool launch(struct run *run, int count) {
    struct failure failure = {0};
    att_session *session = run->session;
    enum att_status status = session->type->timer_start(session->backend, NULL, &failure);
    enum att_status refused;
    for (int i = 0; status == ATT_OK && i < count; i++)
        if ((refused = att_launch(run->kernel, &run->args, NULL)) != ATT_OK)
            status = failure_set(&failure, refused, "%s", att_message(session));
    double seconds = 0;
    if (status == ATT_OK)
        status = session->type->timer_stop(session->backend, NULL, &seconds, &failure);
    if (status != ATT_OK) {
        run->result->status = status;
        text_print(&run->result->report, "running: %s\n", text_string(&failure.text));
    }
    failure_clear(&failure);
    run->result->seconds = seconds / count;
    return status == ATT_OK;
}

static bool execute(struct run *run) {
    struct check_result *result = run->result;
    result->counters.size = sizeof result->counters;
    att_counters_read(run->session, &result->counters, 1);
    enum att_status status = att_prepare(run->kernel);
    if (status != ATT_OK)
        return fail(run, status, "preparing");
    if (run->options->numbers && (status = att_check(run->kernel, &run->args)) != ATT_OK)
        return fail(run, status, "checking the arguments");
    if (!launch(run, 1))
        return false;
    att_counters_read(run->session, &result->counters, 1);
    if ((status = att_synchronize(run->session)) != ATT_OK)
        return fail(run, status, "running");
    return run->options->repeat == 0 || launch(run, run->options->repeat);
}

/* --- comparing ---------------------------------------------------------------------------------------------------- */

/* "o[batch 0, head 2, row 5, column 17]", leaving out dimensions of one. */
static void print_element(const struct workload_output *output, int64_t i, struct text *text) {
    static const char *const names[] = {"part", "batch", "head", "row", "column"};
    int64_t index[TENSOR_DIMS];
    for (int d = TENSOR_DIMS - 1; d >= 0; d--) {
        index[d] = i % output->dim[d];
        i /= output->dim[d];
    }
    const char *separator = "[";
    text_print(text, "%s", output->name);
    for (int d = 0; d < TENSOR_DIMS; d++)
        if (output->dim[d] > 1) {
            text_print(text, "%s%s %" PRId64, separator, names[d], index[d]);
            separator = ", ";
        }
    text_print(text, *separator == '[' ? "[0]" : "]");
}

static void compare_element(struct run *run, const struct workload_output *output, int64_t i, double found) {
    struct check_result *result = run->result;
    result->compared++;
    result->nans += isnan(output->expected[i]) != 0;
    double expected = output->expected[i], allowed = output->allowed[i], error = fabs(found - expected);
    if (isfinite(error) && error > result->error)
        result->error = error;
    if (isfinite(error) && error > result->worst * allowed)
        result->worst = error / allowed;
    if (tolerance_accepts((enum tolerance_type)output->type, expected, found, allowed))
        return;
    if (result->mismatches++ >= run->options->shown)
        return;
    text_print(&result->report, "  ");
    print_element(output, i, &result->report);
    text_print(&result->report, ": expected %.9g, got %.9g, allowed error %.3g\n", expected, found, allowed);
}

/* Elements, then what lies between them: each element read is turned back to poison, so that all bytes must be. */
static bool compare(struct run *run, int number) {
    const struct workload_output *output = &run->workload->output[number];
    struct block *block = &run->output[number];
    struct check_result *result = run->result;
    size_t size = npy_element_size(output->type);
    bool untouched = strcmp(output->name, "lse") == 0 && run->options->without_lse;
    if (block->tensor.bytes > 0) {
        enum att_status status = att_copy_out(run->session, block->host, block->device, block->tensor.bytes);
        if (status != ATT_OK)
            return fail(run, status, "copying a tensor from the device");
    }
    if (number == 0 && !(result->output = calloc((size_t)output->count + 1, size)))
        return out_of_memory(run);
    for (int64_t i = 0; i < output->count && !untouched; i++) {
        unsigned char *bits = element(block, i);
        if (!bits || output->allowed[i] < 0) /* no row of a sequence, or not to be written */
            continue;
        compare_element(run, output, i, element_decode(output->type, bits));
        if (number == 0)
            memcpy((char *)result->output + (size_t)i * size, bits, size);
        memset(bits, POISON_OUTPUT, size);
    }
    size_t stray = 0;
    for (size_t i = 0; i < block->tensor.bytes; i++)
        stray += block->host[i] != POISON_OUTPUT;
    if (stray > 0) {
        result->mismatches++;
        text_print(&result->report, "  %s: %zu bytes outside of the tensor were written\n", output->name, stray);
    }
    return true;
}

static void release(struct run *run) {
    for (int i = 0; i < WORKLOAD_INPUTS; i++) {
        free(run->input[i].host);
        att_free(run->session, run->input[i].device);
    }
    for (int i = 0; i < WORKLOAD_OUTPUTS; i++) {
        free(run->output[i].host);
        att_free(run->session, run->output[i].device);
    }
    for (int i = 0; i < FORMULA_PARAMS; i++)
        att_free(run->session, run->param_memory[i]);
    for (int i = 0; i < RUN_NUMBERS; i++)
        att_free(run->session, run->numbers[i]);
    att_free(run->session, run->workspace);
}

bool check_run(att_session *session, att_kernel *kernel, const struct workload *workload,
               const struct check_options *options, struct check_result *result) {
    struct run run = {.session = session,
                      .kernel = kernel,
                      .workload = workload,
                      .options = options,
                      .result = result,
                      .args = {.size = sizeof run.args}};
    *result = (struct check_result){0};
    bool ran = make_blocks(&run) && make_params(&run) && make_arguments(&run) && execute(&run);
    for (int i = 0; ran && i < workload->outputs; i++)
        ran = compare(&run, i);
    release(&run);
    return ran && result->mismatches == 0;
}

void check_free(struct check_result *result) {
    text_free(&result->report);
    free(result->output);
    *result = (struct check_result){0};
}
