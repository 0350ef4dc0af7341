/* att_launch: arguments -> checked parameters -> grid -> device. No allocation and no lock unless an error occurs. */
#include "formula_args.h"
#include "read_args.h"
#include "sized.h"
#include "tensor_maps.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>

static enum att_status too_large(const char *what, struct failure *failure) {
    return failure_set(failure, ATT_INVALID_ARGUMENT,
                       "the sizes are too large together: %s cannot be computed in 64 bits", what);
}

static bool fills_tables(const struct plan *plan) {
    bool fills = false;
    for (int i = 0; i < plan->launches; i++)
        fills |= plan->launch[i].fills_tables;
    return fills;
}

/* Workspace of the kernel itself, followed by the tables of its mask. */
struct room {
    size_t own, tables; /* own: a multiple of the alignment if tables follow */
};

static enum att_status eval_workspace(const att_kernel *kernel, const struct att_args *args, const struct shape *shape,
                                      struct room *room, struct failure *failure) {
    int64_t value;
    *room = (struct room){0};
    if (!plan_eval(&kernel->plan.workspace, shape, &value) || value < 0 || value > INT64_MAX - WORKSPACE_ALIGNMENT)
        return too_large("the size of the workspace", failure);
    room->own = (size_t)value;
    if (!fills_tables(&kernel->plan))
        return ATT_OK;
    room->own = (room->own + WORKSPACE_ALIGNMENT - 1) / WORKSPACE_ALIGNMENT * WORKSPACE_ALIGNMENT;
    if (formula_args_workspace(&kernel->formulas, arguments_attention_args(kernel->variant.knobs.family, args), shape,
                               &room->tables, failure) != ATT_OK)
        return failure->status;
    return room->tables <= SIZE_MAX - room->own ? ATT_OK : too_large("the size of the workspace", failure);
}

/* Computes all grids before the first launch, so that a refused size starts nothing. */
static enum att_status eval_grids(const struct plan *plan, const struct shape *shape, int64_t grids[PLAN_LAUNCHES],
                                  struct failure *failure) {
    for (int i = 0; i < plan->launches; i++) {
        const char *entry = plan->launch[i].entry;
        if (!plan_eval(&plan->launch[i].grid, shape, &grids[i]) || grids[i] < 0)
            return too_large(entry, failure);
        int cluster = plan->launch[i].cluster;
        if (cluster && grids[i] % cluster)
            return failure_set(failure, ATT_INTERNAL,
                               "%s: %" PRId64 " blocks are not whole clusters of %d; its template's grid is wrong",
                               entry, grids[i], cluster);
        if (grids[i] > INT_MAX)
            return failure_set(failure, ATT_INVALID_ARGUMENT,
                               "%s: these sizes take %" PRId64 " blocks, expected at most %d; launch in several parts",
                               entry, grids[i], INT_MAX);
    }
    return ATT_OK;
}

/* Sets what comes from the plan and the caller in addition to the family's own arguments. */
static void set_workspace(struct arguments *arguments, void *workspace) {
    struct attention_params *attention = arguments_attention(arguments);
    if (!attention)
        return;
    attention->workspace = workspace;
    attention->splits = (int)arguments->shape.key_parts;
}

/* Sets the members that no caller sets. */
static enum att_status complete_shape(const att_kernel *kernel, struct shape *shape, struct failure *failure) {
    shape->sm_count = kernel->session->info.sm_count;
    return plan_split(&kernel->plan.splits, shape) ? ATT_OK : too_large("the number of splits", failure);
}

/* Returns the parameters of one launch of the plan. */
static const void *params_of(const struct plan *plan, int launch, struct arguments *arguments,
                             struct mapped_params *mapped, size_t *size) {
    bool maps = plan_with_maps(plan, launch);
    if (plan->launch[launch].params == PLAN_PARAMS_attention_params) {
        *size = arguments_attention_size(arguments);
        return arguments_attention(arguments);
    }
    *size = maps ? mapped_params_size(plan, arguments->params_size) : arguments->params_size;
    return maps ? (const void *)mapped_params_begin(mapped, plan)
                : (const void *)((const char *)&arguments->params + arguments->params_begin);
}

/* No kernel is compiled or loaded during graph capture. */
static enum att_status check_capture(const att_kernel *kernel, void *stream, struct failure *failure) {
    const att_session *session = kernel->session;
    if (!session->type->capturing || !session->type->capturing(session->backend, stream))
        return ATT_OK;
    return failure_set(failure, ATT_NOT_PREPARED,
                       "%s is launched into a graph capture for the first time%s; call att_prepare before capturing",
                       kernel->variant.name, kernel->by_sizes ? ", or for the first time with such sizes" : "");
}

/* The driver may load a kernel at its first launch. */
static enum att_status prepare(att_kernel *kernel, void *stream, struct failure *failure) {
    return check_capture(kernel, stream, failure) == ATT_OK ? kernel_prepare(kernel, failure) : failure->status;
}

/* decode and mla count K/V tiles over all Q tiles in an int. If lengths vary, decode counts each Q tile as up to 16
   more. */
static enum att_status check_runs(const struct knobs *knobs, const struct shape *shape, struct failure *failure) {
    if (knobs->algorithm != algorithm_decode && knobs->algorithm != algorithm_mla)
        return ATT_OK;
    int64_t group = shape->heads / shape->kv_heads;
    if (knobs->algorithm == algorithm_mla) /* a Q tile has rows of one query */
        group = (group + knobs->block_m - 1) / knobs->block_m * knobs->block_m;
    int64_t rows = shape->len_q * group;
    double q_tiles = ceil((double)rows / knobs->block_m) * (double)shape->kv_heads * (double)shape->batch;
    double tiles = q_tiles * fmax(1, ceil((double)shape->len_kv / knobs->block_n));
    double most = INT_MAX;
    if (knobs->algorithm == algorithm_decode && knobs->layout > layout_dense)
        most = fmax(0, most - 16 * q_tiles);
    if (rows <= INT_MAX - knobs->block_m && tiles <= most)
        return ATT_OK;
    return failure_set(
        failure, ATT_INVALID_ARGUMENT,
        "these sizes take %.0f tiles of %d rows of Q by %d keys, expected at most %.0f by this kernel, which "
        "is for few queries; launch in several parts",
        tiles, knobs->block_m, knobs->block_n, most);
}

/* Checks that a kernel can launch these sizes with the given workspace; sets arguments->shape and *room accordingly. */
static enum att_status check_sizes(const att_kernel *kernel, const struct att_args *args, struct arguments *arguments,
                                   struct room *room, struct failure *failure) {
    const struct plan *plan = &kernel->plan;
    if (check_runs(&kernel->variant.knobs, &arguments->shape, failure) != ATT_OK ||
        (plan->maps && tensor_maps_check(arguments, failure) != ATT_OK) ||
        complete_shape(kernel, &arguments->shape, failure) != ATT_OK)
        return failure->status;
    if (!args->workspace && plan->splits.expr[PLAN_SPLIT_TILES].count)
        arguments->shape.key_parts = 1; /* a launch that may choose does not split without room for parts */
    if (eval_workspace(kernel, args, &arguments->shape, room, failure) != ATT_OK)
        return failure->status;
    return arguments_check_workspace(arguments, args, room->own + room->tables, failure);
}

/* Replaces *kernel by the kernel of these sizes, unless that cannot launch them, for example in a workspace smaller
   than it needs. */
static enum att_status take_by_sizes(att_kernel **kernel, const struct att_args *args, void *stream,
                                     struct arguments *arguments, struct room *room, struct failure *failure) {
    struct by_sizes *by_sizes = (*kernel)->by_sizes;
    att_kernel *own = NULL;
    if (by_sizes) {
        arguments->shape.sm_count = (*kernel)->session->info.sm_count;
        const int size_class = by_sizes_class(by_sizes, &arguments->shape, args->workspace != NULL);
        if ((!by_sizes_is_ready(by_sizes, size_class) && check_capture(*kernel, stream, failure) != ATT_OK) ||
            by_sizes_take(by_sizes, size_class, &own, failure) != ATT_OK)
            return failure->status;
    }
    if (own && (*kernel)->plan.maps && tensor_maps_check(arguments, failure) != ATT_OK)
        return failure->status; /* if this kernel cannot take them, no other one takes its place */
    struct failure unsaid = {.wordless = true};
    if (own && check_sizes(own, args, arguments, room, &unsaid) == ATT_OK) {
        *kernel = own;
        return ATT_OK;
    }
    return check_sizes(*kernel, args, arguments, room, failure);
}

static enum att_status launch(att_kernel *kernel, const struct att_args *args, void *stream, struct failure *failure) {
    const att_session *session = kernel->session;
    struct arguments arguments;
    int64_t grids[PLAN_LAUNCHES];
    struct room room;
    if (read_args(kernel, args, &arguments, failure) != ATT_OK ||
        (session->type == &backend_host && read_numbers(kernel, args, &arguments, failure) != ATT_OK))
        return failure->status;
    if (arguments.empty)
        return ATT_OK;
    if (take_by_sizes(&kernel, args, stream, &arguments, &room, failure) != ATT_OK)
        return failure->status;
    const struct plan *plan = &kernel->plan;
    if (eval_grids(plan, &arguments.shape, grids, failure) != ATT_OK)
        return failure->status;
    set_workspace(&arguments, args->workspace);
    if (fills_tables(plan))
        formula_args_place_tables(&kernel->formulas, (char *)args->workspace + room.own, &arguments);
    if (family_is_attention(kernel->variant.knobs.family))
        arguments.params_size +=
            arguments_pack(&kernel->variant.knobs, arguments_attention(&arguments)) - sizeof(struct attention_params);
    struct mapped_params mapped;
    if (plan->maps && tensor_maps_fill(session->type, session->backend, plan, &kernel->variant.knobs, &arguments,
                                       &mapped, failure) != ATT_OK)
        return failure->status;
    if (!atomic_load_explicit(&kernel->prepared, memory_order_acquire) && prepare(kernel, stream, failure) != ATT_OK)
        return failure->status;
    for (int i = 0; i < plan->launches; i++) {
        size_t size;
        const void *params = params_of(plan, i, &arguments, &mapped, &size);
        if (grids[i] && session->type->launch(session->backend, kernel->module, i, grids[i], params, size, stream,
                                              failure) != ATT_OK)
            return failure->status;
    }
    return ATT_OK;
}

enum att_status att_launch(att_kernel *kernel, const struct att_args *args, void *stream) {
    struct failure failure = {0};
    struct att_args known;
    if (!kernel)
        return ATT_INVALID_ARGUMENT;
    enum att_status status = session_enter(kernel->session);
    if (status != ATT_OK)
        return status;
    if (!args)
        failure_set(&failure, ATT_INVALID_ARGUMENT, "args is null, expected the arguments of %s", kernel->variant.name);
    else if (sized_read(SIZED_ARGS, "args", args, &known, &failure) == ATT_OK &&
             launch(kernel, &known, stream, &failure) == ATT_OK)
        return ATT_OK;
    return session_fail(kernel->session, &failure);
}

/* The size for the kernel that launches of these sizes use if they have a workspace. */
static enum att_status workspace_size(const att_kernel *kernel, const struct att_args *args, size_t *bytes,
                                      struct failure *failure) {
    struct shape shape;
    struct room room = {0};
    bool empty;
    att_kernel *own = NULL;
    if (arguments_read_sizes(&kernel->variant.knobs, args, &shape, &empty, failure) != ATT_OK || empty)
        return failure->status;
    shape.sm_count = kernel->session->info.sm_count;
    if (kernel->by_sizes &&
        by_sizes_take(kernel->by_sizes, by_sizes_class(kernel->by_sizes, &shape, true), &own, failure) != ATT_OK)
        return failure->status;
    kernel = own ? own : kernel;
    if (complete_shape(kernel, &shape, failure) != ATT_OK ||
        eval_workspace(kernel, args, &shape, &room, failure) != ATT_OK)
        return failure->status;
    *bytes = room.own + room.tables;
    return ATT_OK;
}

enum att_status att_workspace_size(const att_kernel *kernel, const struct att_args *args, size_t *bytes) {
    struct failure failure = {0};
    struct att_args known;
    if (bytes)
        *bytes = 0;
    if (!kernel)
        return ATT_INVALID_ARGUMENT;
    enum att_status status = session_enter(kernel->session);
    if (status != ATT_OK)
        return status;
    if (!args || !bytes)
        failure_set(&failure, ATT_INVALID_ARGUMENT, "%s is null", args ? "bytes" : "args");
    else if (sized_read(SIZED_ARGS, "args", args, &known, &failure) == ATT_OK &&
             workspace_size(kernel, &known, bytes, &failure) == ATT_OK)
        return ATT_OK;
    return session_fail(kernel->session, &failure);
}
