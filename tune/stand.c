#include "stand.h"
#include "gen.h"
#include "check.h"
#include "session.h"
#include "stage.h"
#include "timing.h"
#include "worker.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKLOADS = 2 }; /* one for each precision of weights */

struct kernels { /* kernels that passed a check */
    int count, room;
    const att_kernel **kernel;
};

struct stand {
    att_session *session;
    struct stage stage;
    struct workload workload[WORKLOADS]; /* at a small shape, where every element is compared */
    int next;                            /* the one to replace next */
    struct kernels small, large;         /* passed there; passed on the stage with its present tensors */
    struct reply reply;                  /* to this order */
};

/* --- words -------------------------------------------------------------------------------------------------------- */

static void say(char *to, size_t size, const char *text) { snprintf(to, size, "%s", text ? text : ""); }

static bool refuse(struct stand *stand, enum att_status status, const char *word, const char *why) {
    stand->reply.status = status;
    say(stand->reply.record.status, sizeof stand->reply.record.status, word);
    say(stand->reply.record.error, sizeof stand->reply.record.error, why);
    return false;
}

static bool fail(struct stand *stand, const char *word, struct failure *failure) {
    refuse(stand, failure->status, word, text_string(&failure->text));
    failure_clear(failure);
    return false;
}

/* Returns what a status says about the kernel. */
static const char *word_for(enum att_status status) {
    switch (status) {
    case ATT_LAUNCH_FAILED: return "fault";
    case ATT_NO_COMPILER: return "compiler";
    case ATT_COMPILE_FAILED: return "compile";
    case ATT_OUT_OF_MEMORY: return "stage";
    default: return "refused";
    }
}

static bool knows(const struct kernels *kernels, const att_kernel *kernel) {
    for (int i = 0; i < kernels->count; i++)
        if (kernels->kernel[i] == kernel)
            return true;
    return false;
}

/* If memory is short, the kernel is only checked again the next time. */
static void keep(struct kernels *kernels, const att_kernel *kernel) {
    if (kernels->count == kernels->room) {
        int room = 2 * kernels->room + 64;
        const att_kernel **more = realloc((void *)(uintptr_t)kernels->kernel, (size_t)room * sizeof *kernels->kernel);
        if (!more)
            return;
        kernels->kernel = more;
        kernels->room = room;
    }
    kernels->kernel[kernels->count++] = kernel;
}

/* --- checking ----------------------------------------------------------------------------------------------------- */

/* Returns a shape with partial tiles for every tile size, and two heads that share keys; on the host device it is small
   enough for a CPU. A kernel for fixed sizes takes no others. */
static struct shape small_shape(const struct stand *stand, const struct knobs *knobs) {
    static const struct shape gpu = {.batch = 1, .heads = 2, .kv_heads = 1, .len_q = 300, .len_kv = 421},
                              cpu = {.batch = 1, .heads = 2, .kv_heads = 1, .len_q = 19, .len_kv = 37};
    struct shape shape = stand->session->type == &backend_host ? cpu : gpu;
    for (int i = 0; i < FIXED_SIZES; i++)
        if (knob_get(knobs, fixed_sizes[i].knob) > 0)
            shape_set(&shape, fixed_sizes[i].shape, knob_get(knobs, fixed_sizes[i].knob));
    if (knobs->layout > layout_dense)
        shape.batch = 6; /* sequences of all kinds: none, one, some and all rows */
    if (shape.heads % shape.kv_heads != 0)
        shape.heads = shape.kv_heads;
    return shape;
}

/* The oracle computes every element, which takes too long for long sequences: those are checked by known rows. */
static bool is_small(const struct shape *shape) {
    return (double)shape->heads * (double)shape->len_q * (double)shape->len_kv < 1e6;
}

static struct workload *make_workload(struct stand *stand, const struct knobs *knobs, const struct shape *shape) {
    for (int i = 0; i < WORKLOADS; i++)
        if (workload_fits(&stand->workload[i], knobs, shape))
            return &stand->workload[i];
    struct workload *workload = &stand->workload[stand->next];
    struct text error = {0};
    stand->next = (stand->next + 1) % WORKLOADS;
    workload_free(workload);
    bool made = workload_make(workload, knobs, shape, NULL, 0, &error);
    if (!made) {
        refuse(stand, ATT_OUT_OF_MEMORY, "stage", text_string(&error));
        workload_free(workload);
    }
    text_free(&error);
    return made ? workload : NULL;
}

static bool check_small(struct stand *stand, att_kernel *kernel) {
    static const struct check_options options = {.layout = LAYOUT_PACKED, .shown = 2};
    struct shape shape = small_shape(stand, &kernel->variant.knobs);
    if (knows(&stand->small, kernel) || (!is_small(&shape) && stage_knows_rows(&kernel->variant.knobs)))
        return true;
    if (!is_small(&shape))
        return refuse(stand, ATT_UNSUPPORTED, "refused",
                      "its pinned sizes are too large to check every element; leave out fixed_len_q or fixed_len_kv");
    const struct workload *workload = make_workload(stand, &kernel->variant.knobs, &shape);
    if (!workload)
        return false;
    struct check_result result;
    bool right = check_run(stand->session, kernel, workload, &options, &result);
    if (right)
        keep(&stand->small, kernel);
    else
        refuse(stand, result.status, result.status == ATT_OK ? "wrong" : word_for(result.status),
               text_string(&result.report));
    stand->reply.record.error_of_allowed = result.worst;
    check_free(&result);
    return right;
}

static bool check_large(struct stand *stand, att_kernel *kernel) {
    struct failure failure = {0};
    struct text report = {0};
    double worst = 0;
    if (knows(&stand->large, kernel))
        return true;
    enum att_status status = stage_check(&stand->stage, kernel, &worst, &report, &failure);
    if (status != ATT_OK)
        fail(stand, word_for(status), &failure);
    else if (worst > 1)
        refuse(stand, ATT_OK, "wrong", text_string(&report));
    else
        keep(&stand->large, kernel);
    text_free(&report);
    stand->reply.record.error_of_allowed = fmax(worst, stand->reply.record.error_of_allowed);
    return status == ATT_OK && worst <= 1;
}

/* --- orders ------------------------------------------------------------------------------------------------------- */

static void note_kernel(struct record *record, const struct att_kernel_info *info) {
    record->registers = info->registers;
    record->spill_bytes = info->spill_bytes;
    record->shared_bytes = info->shared_bytes;
    record->threads = info->threads;
    record->compile_seconds = info->compile_seconds;
}

static bool compile(struct stand *stand, const struct order *order) {
    struct att_kernel_info info = {.size = sizeof info};
    struct failure failure = {0};
    enum att_status status = kernel_compile(stand->session, &order->variant, &info, &failure);
    if (status != ATT_OK)
        return fail(stand, word_for(status), &failure);
    note_kernel(&stand->reply.record, &info);
    return true;
}

static att_kernel *find(struct stand *stand, const struct variant *variant) {
    struct text problem = {0}, schedule = {0};
    att_kernel *kernel = NULL;
    struct att_kernel_info info = {.size = sizeof info};
    variant_print_problem(variant, &problem, &schedule);
    enum att_status status = att_find(stand->session, text_string(&problem), text_string(&schedule), &kernel);
    if (status == ATT_OK)
        status = att_prepare(kernel);
    text_free(&problem);
    text_free(&schedule);
    if (status != ATT_OK) {
        refuse(stand, status, word_for(status), att_message(stand->session));
        return NULL;
    }
    att_kernel_describe(kernel, &info);
    note_kernel(&stand->reply.record, &info);
    return kernel;
}

static void note_times(struct stand *stand, const struct order *order, const struct timing *cold,
                       const struct timing *warm) {
    struct record *record = &stand->reply.record;
    const struct knobs *knobs = &order->variant.knobs;
    int sm = -1, memory = -1;
    record->cold_samples = cold->samples;
    record->cold_median = cold->median;
    record->cold_min = cold->min;
    record->cold_spread = cold->spread;
    record->warm_samples = warm->samples;
    record->warm_median = warm->median;
    record->warm_min = warm->min;
    record->warm_spread = warm->spread;
    record->tflops = stage_operations(knobs, &order->shape) / cold->median * 1e-12;
    record->gbps = stage_bytes(knobs, &order->shape) / cold->median * 1e-9;
    if (stand->session->type->clocks)
        stand->session->type->clocks(stand->session->backend, &sm, &memory);
    record->sm_mhz = sm;
    record->memory_mhz = memory;
}

static bool measure(struct stand *stand, const struct order *order) {
    struct failure failure = {0};
    struct timing cold, warm;
    att_kernel *kernel = find(stand, &order->variant);
    if (!kernel || !check_small(stand, kernel))
        return false;
    int changes = stand->stage.changes;
    if (stage_set(&stand->stage, &order->variant.knobs, &order->shape, &failure) != ATT_OK)
        return fail(stand, "stage", &failure);
    if (stand->stage.changes != changes)
        stand->large.count = 0;
    if (stage_fit(&stand->stage, kernel, &failure) != ATT_OK)
        return fail(stand, "refused", &failure); /* a workspace that does not fit is a failure of this kernel */
    if (!check_large(stand, kernel))
        return false;
    enum att_status status =
        timing_run(stand->session, kernel, &stand->stage.args, order->seconds, &cold, &warm, &failure);
    if (status != ATT_OK)
        return fail(stand, word_for(status), &failure);
    note_times(stand, order, &cold, &warm);
    return true;
}

/* --- the worker --------------------------------------------------------------------------------------------------- */

static bool open_stand(struct stand *stand, const struct stand_options *options) {
    struct record *record = &stand->reply.record;
    struct backend_info info;
    struct att_session_info session = {.size = sizeof session};
    enum att_status status = session_open(&options->session, options->compile_for, &stand->session);
    record_clear(record);
    if (status != ATT_OK)
        return refuse(stand, status, "session", stand->session ? att_message(stand->session) : "out of memory");
    att_session_describe(stand->session, &session); /* makes it look for its compiler */
    stand->session->type->describe(stand->session->backend, &info);
    say(record->device, sizeof record->device, info.device_name);
    say(record->arch, sizeof record->arch, info.arch);
    say(record->driver, sizeof record->driver, info.driver);
    say(record->compiler, sizeof record->compiler, info.compiler);
    say(record->generator, sizeof record->generator, GEN_VERSION);
    say(record->status, sizeof record->status, "ok");
    stage_open(&stand->stage, stand->session);
    return true;
}

/* The process ends after this, so nothing is released: after a device fault a release would only fail. */
void stand_body(void *context, int channel) {
    const struct stand_options *options = context;
    struct stand *stand = calloc(1, sizeof *stand);
    struct order order;
    if (!stand)
        return;
    bool go_on = open_stand(stand, options);
    while (worker_send(channel, &stand->reply, sizeof stand->reply) && go_on &&
           worker_receive(channel, &order, sizeof order)) {
        stand->reply.status = ATT_OK;
        record_clear(&stand->reply.record);
        say(stand->reply.record.status, sizeof stand->reply.record.status, "ok");
        if (options->compile_for)
            compile(stand, &order);
        else
            measure(stand, &order);
        go_on = strcmp(stand->reply.record.status, "fault") != 0;
    }
}
