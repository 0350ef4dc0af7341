#include "check.h"
#include "launch_arguments.h"
#include "session.h"
#include "tolerance.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Gaps of inputs and the workspace start as NaN, so that a kernel that reads them gives a wrong answer. Outputs start
   as bytes that form a large number in every type: NaN would pass where NaN is expected. */
enum { POISON_INPUT = 0xFF, POISON_OUTPUT = 0x7B };

struct block { /* one tensor, on the host and on the device */
    const struct argument *argument;
    unsigned char *host; /* all its bytes, gaps included; owned */
    /* For an output that shares the memory of an input: the bytes before the launch; null: poison. */
    const unsigned char *before;
};

struct run {
    att_session *session;
    att_kernel *kernel;
    const struct workload *workload;
    const struct check_options *options;
    struct check_result *result;
    struct arguments arguments;
    struct block input[WORKLOAD_INPUTS], output[WORKLOAD_OUTPUTS];
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

static bool make_block(struct run *run, struct block *block, const struct argument *argument, int poison) {
    size_t bytes = argument->tensor.bytes;
    *block = (struct block){.argument = argument, .host = malloc(bytes ? bytes : 1)};
    if (!block->host)
        return out_of_memory(run);
    memset(block->host, poison, bytes);
    return true;
}

/* Returns element i of the workload's tensor, or null when no sequence has it. */
static unsigned char *element(const struct block *block, int64_t i) {
    int64_t place = argument_place(block->argument, i);
    return place < 0 ? NULL : block->host + (size_t)place * npy_element_size(block->argument->tensor.type);
}

static bool send(struct run *run, const struct block *block) {
    const struct argument *argument = block->argument;
    if (argument->tensor.bytes == 0)
        return true;
    enum att_status status = att_copy_in(run->session, argument->device, block->host, argument->tensor.bytes);
    return status == ATT_OK || fail(run, status, "copying a tensor to the device");
}

static bool make_blocks(struct run *run) {
    const struct workload *workload = run->workload;
    for (int i = 0; i < workload->inputs; i++) {
        const struct workload_input *input = &workload->input[i];
        const struct argument *argument = &run->arguments.input[i];
        if (!argument->dim) /* V shares the memory of K */
            continue;
        if (!make_block(run, &run->input[i], argument, POISON_INPUT))
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
        const struct workload_input *input = workload->output[i].updates;
        if (!make_block(run, &run->output[i], &run->arguments.output[i], POISON_OUTPUT))
            return false;
        run->output[i].before = input ? run->input[input - workload->input].host : NULL;
        if (!input && !send(run, &run->output[i]))
            return false;
    }
    return true;
}

static bool make_arguments(struct run *run) {
    struct failure failure = {0};
    enum att_status status =
        arguments_make(&run->arguments, run->session, run->workload, run->options->layout, &failure);
    if (status != ATT_OK) {
        run->result->status = status;
        text_print(&run->result->report, "%s\n", text_string(&failure.text));
    }
    failure_clear(&failure);
    if (run->options->without_lse && run->workload->problem.family == family_attention_forward)
        run->arguments.args.attention.lse = NULL;
    if (run->options->without_lse && run->workload->problem.family == family_merge)
        run->arguments.args.merge.lse = NULL;
    return status == ATT_OK;
}

static bool make_workspace(struct run *run) {
    size_t size = 0;
    enum att_status status = att_workspace_size(run->kernel, &run->arguments.args, &size);
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
    run->arguments.args.workspace = run->workspace;
    run->arguments.args.workspace_size = size;
    return status == ATT_OK || fail(run, status, "making the workspace");
}

/* --- running ------------------------------------------------------------------------------------------------------ */

/* Launches `count` times between the start and the stop of the device's timer. */
static bool launch(struct run *run, int count) {
    struct failure failure = {0};
    att_session *session = run->session;
    enum att_status status = session->type->timer_start(session->backend, NULL, &failure);
    enum att_status refused;
    for (int i = 0; status == ATT_OK && i < count; i++)
        if ((refused = att_launch(run->kernel, &run->arguments.args, NULL)) != ATT_OK)
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
    if (run->options->numbers && (status = att_check(run->kernel, &run->arguments.args)) != ATT_OK)
        return fail(run, status, "checking the arguments");
    if (!launch(run, 1))
        return false;
    att_counters_read(run->session, &result->counters, 1);
    if ((status = att_synchronize(run->session)) != ATT_OK)
        return fail(run, status, "running");
    return run->options->repeat == 0 || launch(run, run->options->repeat);
}

/* --- comparing ---------------------------------------------------------------------------------------------------- */

/* Prints "o[batch 0, head 2, row 5, column 17]" without the dimensions of size 1. */
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

/* Compares the elements, then the gaps between them: each compared element is reset to its bytes before the launch, so
   that all bytes must then equal those before the launch. */
static bool compare(struct run *run, int number) {
    const struct workload_output *output = &run->workload->output[number];
    struct block *block = &run->output[number];
    struct check_result *result = run->result;
    size_t size = npy_element_size(output->type), bytes = block->argument->tensor.bytes;
    bool untouched = strcmp(output->name, "lse") == 0 && run->options->without_lse;
    if (bytes > 0) {
        enum att_status status = att_copy_out(run->session, block->host, block->argument->device, bytes);
        if (status != ATT_OK)
            return fail(run, status, "copying a tensor from the device");
    }
    if (number == 0 && !(result->output = calloc((size_t)output->count + 1, size)))
        return out_of_memory(run);
    for (int64_t i = 0; i < output->count && !untouched; i++) {
        unsigned char *bits = element(block, i);
        if (!bits || output->allowed[i] < 0) /* not a row of any sequence, or must not be written */
            continue;
        compare_element(run, output, i, element_decode(output->type, bits));
        if (number == 0)
            memcpy((char *)result->output + (size_t)i * size, bits, size);
        if (block->before)
            memcpy(bits, block->before + (bits - block->host), size);
        else
            memset(bits, POISON_OUTPUT, size);
    }
    size_t stray = 0;
    for (size_t i = 0; i < bytes; i++)
        stray += block->host[i] != (block->before ? block->before[i] : POISON_OUTPUT);
    if (stray > 0) {
        result->mismatches++;
        text_print(&result->report, "  %s: %zu bytes outside of the tensor were written\n", output->name, stray);
    }
    return true;
}

static void release(struct run *run) {
    for (int i = 0; i < WORKLOAD_INPUTS; i++)
        free(run->input[i].host);
    for (int i = 0; i < WORKLOAD_OUTPUTS; i++)
        free(run->output[i].host);
    att_free(run->session, run->workspace);
    arguments_free(&run->arguments);
}

bool check_run(att_session *session, att_kernel *kernel, const struct workload *workload,
               const struct check_options *options, struct check_result *result) {
    struct run run = {.session = session, .kernel = kernel, .workload = workload, .options = options, .result = result};
    *result = (struct check_result){0};
    bool ran = make_arguments(&run) && make_blocks(&run) && make_workspace(&run) && execute(&run);
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
