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

struct block { /* one tensor on the device */
    struct tensor tensor;
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
    void *param_memory[FORMULA_PARAMS];
    struct att_args args;
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

static bool make_block(struct run *run, struct block *block, enum npy_type type, const int64_t *dim, int poison) {
    if (!tensor_plan(&block->tensor, type, dim, run->options->layout) ||
        !(block->host = malloc(block->tensor.bytes ? block->tensor.bytes : 1)))
        return out_of_memory(run);
    memset(block->host, poison, block->tensor.bytes);
    enum att_status status = att_alloc(run->session, block->tensor.bytes, &block->device);
    return status == ATT_OK || fail(run, status, "allocating a tensor");
}

static unsigned char *element(const struct block *block, int64_t i) {
    return block->host + (size_t)tensor_place(&block->tensor, i) * npy_element_size(block->tensor.type);
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
        if (!make_block(run, &run->input[i], input->type, input->dim, POISON_INPUT))
            return false;
        for (int64_t k = 0; k < input->count; k++)
            element_encode(input->type, input->value[k], element(&run->input[i], k));
        if (!send(run, &run->input[i]))
            return false;
    }
    for (int i = 0; i < workload->outputs; i++) {
        const struct workload_output *output = &workload->output[i];
        if (!make_block(run, &run->output[i], output->type, output->dim, POISON_OUTPUT) || !send(run, &run->output[i]))
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

static struct att_tensor argument(const struct block *block) {
    const int64_t *stride = block->tensor.stride;
    return (struct att_tensor){block->device, stride[DIM_BATCH], stride[DIM_HEAD], stride[DIM_ROW]};
}

static void fill_attention(struct run *run) {
    const struct shape *shape = &run->workload->shape;
    const struct block *lse = &run->output[1];
    run->args.family = ATT_ATTENTION_FORWARD;
    run->args.attention = (struct att_attention_args){.q = argument(&run->input[0]),
                                                      .k = argument(&run->input[1]),
                                                      .v = argument(&run->input[2]),
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
                                                      .params = run->param,
                                                      .param_count = run->workload->params->formulas.scope.count};
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

static bool make_arguments(struct run *run) {
    static void (*const fill[])(struct run *) = {
        [family_softmax] = fill_softmax, [family_attention_forward] = fill_attention, [family_merge] = fill_merge};
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
    bool untouched = number > 0 && run->options->without_lse;
    if (block->tensor.bytes > 0) {
        enum att_status status = att_copy_out(run->session, block->host, block->device, block->tensor.bytes);
        if (status != ATT_OK)
            return fail(run, status, "copying a tensor from the device");
    }
    if (number == 0 && !(result->output = malloc((size_t)output->count * size + 1)))
        return out_of_memory(run);
    for (int64_t i = 0; i < output->count && !untouched; i++) {
        unsigned char *bits = element(block, i);
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
