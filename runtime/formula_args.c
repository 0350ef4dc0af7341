#include "formula_args.h"
#include "tensor_check.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <string.h>

static const struct {
    const char *name;
    enum att_param_type type;
    int bytes;
} storages[FORMULA_STORAGES] = {
    [FORMULA_STORE_BOOL] = {"ATT_PARAM_BOOL", ATT_PARAM_BOOL, 1},
    [FORMULA_STORE_INT] = {"ATT_PARAM_INT", ATT_PARAM_INT, 4},
    [FORMULA_STORE_FP32] = {"ATT_PARAM_FP32", ATT_PARAM_FP32, 4},
    [FORMULA_STORE_FP16] = {"ATT_PARAM_FP16", ATT_PARAM_FP16, 2},
    [FORMULA_STORE_BF16] = {"ATT_PARAM_BF16", ATT_PARAM_BF16, 2},
};

_Static_assert(sizeof((struct attention_params *)0)->param / sizeof(struct attention_param) == FORMULA_PARAMS,
               "room for every parameter of a scope");

static const char *type_name(enum att_param_type type) {
    for (int i = 0; i < FORMULA_STORAGES; i++)
        if (storages[i].type == type)
            return storages[i].name;
    return "no type";
}

static void add_declaration(const struct formula_scope *scope, int number, struct failure *failure) {
    struct text text = {0};
    formula_print_params(scope, 1u << number, &text);
    failure_add(failure, "; it is declared as %s", text_string(&text));
    text_free(&text);
}

/* --- matching names ---------------------------------------------------------------------------------------------- */

/* Sets found[i] to the argument for parameter i. */
static enum att_status match(const struct formula_scope *scope, const struct att_attention_args *args,
                             const struct att_param *found[FORMULA_PARAMS], struct failure *failure) {
    if (args->param_count < 0 || (args->param_count > 0 && !args->params))
        return failure_set(failure, ATT_INVALID_ARGUMENT, "params is null with param_count %d", args->param_count);
    for (int i = 0; i < args->param_count; i++) {
        const char *name = args->params[i].name;
        int number = name ? formula_param_find(scope, name) : -1;
        if (number < 0)
            return failure_set(failure, ATT_INVALID_ARGUMENT,
                               name ? "params[%d]: the problem declares no '%.*s'" : "params[%d]: its name is null%.*s",
                               i, FORMULA_PARAM_NAME, name ? name : "");
        if (found[number])
            return failure_set(failure, ATT_INVALID_ARGUMENT, "params[%d]: '%s' is given twice", i, name);
        found[number] = &args->params[i];
    }
    for (int i = 0; i < scope->count; i++) {
        if (found[i])
            continue;
        failure_set(failure, ATT_INVALID_ARGUMENT, "params: '%s' is missing", scope->param[i].name);
        add_declaration(scope, i, failure);
        return failure->status;
    }
    return ATT_OK;
}

/* --- scalars ----------------------------------------------------------------------------------------------------- */

static enum att_status read_scalar(const struct formula_scope *scope, int number, const struct att_param *from,
                                   struct attention_param *to, union formula_value *value, struct failure *failure) {
    const struct formula_param *param = &scope->param[number];
    if (from->data) {
        failure_set(failure, ATT_INVALID_ARGUMENT, "%s: it is a scalar, expected number instead of data", param->name);
        add_declaration(scope, number, failure);
        return failure->status;
    }
    if (param->type == FORMULA_REAL) {
        to->real = (float)from->number;
        value->real = (double)to->real;
        return ATT_OK;
    }
    if (!(fabs(from->number) <= FORMULA_SCALAR) || from->number != floor(from->number)) {
        failure_set(failure, ATT_INVALID_ARGUMENT, "%s is %g, expected an integer within -%d to %d", param->name,
                    from->number, FORMULA_SCALAR, FORMULA_SCALAR);
        add_declaration(scope, number, failure);
        return failure->status;
    }
    to->whole = (int)from->number;
    value->integer = param->type == FORMULA_BOOL ? to->whole != 0 : to->whole;
    return ATT_OK;
}

/* --- tensors ----------------------------------------------------------------------------------------------------- */

static enum att_status check_size(const struct formula_scope *scope, int number, const struct formula_env *env,
                                  const struct att_param *from, struct failure *failure) {
    const struct formula_param *param = &scope->param[number];
    for (int d = 0; d < param->dims; d++) {
        int64_t expected = formula_dim(scope, number, d, env);
        if (from->size[d] == expected && expected >= 0 && expected <= INT_MAX)
            continue;
        failure_set(failure, ATT_INVALID_ARGUMENT, "%s: size[%d] is %" PRId64 ", expected %" PRId64 " with these sizes",
                    param->name, d, from->size[d], expected);
        add_declaration(scope, number, failure);
        return failure->status;
    }
    return ATT_OK;
}

static void set_strides(const struct formula_param *param, const struct att_param *from, struct attention_param *to) {
    bool given = false;
    long long next = 1;
    for (int d = param->dims - 1; d >= 0; d--) {
        to->stride[d] = next;
        if (__builtin_mul_overflow(next, from->size[d], &next))
            next = INT64_MAX; /* tensor_check refuses it */
        given = given || from->stride[d] != 0;
    }
    for (int d = 0; given && d < param->dims; d++)
        to->stride[d] = from->stride[d] == ATT_REPEAT ? 0 : from->stride[d];
}

static enum att_status read_tensor(const struct formula_scope *scope, int number, const struct formula_env *env,
                                   const struct att_param *from, struct attention_param *to,
                                   struct arguments *arguments, struct failure *failure) {
    static const char *const dims[] = {"size[0]", "size[1]", "size[2]", "size[3]"};
    static const char *const steps[] = {"stride[0]", "stride[1]", "stride[2]", "stride[3]"};
    const struct formula_param *param = &scope->param[number];
    if (check_size(scope, number, env, from, failure) != ATT_OK)
        return failure->status;
    set_strides(param, from, to);
    for (int d = 0; d < param->dims; d++)
        to->size[d] = (int)from->size[d];
    struct tensor tensor = {
        .name = param->name, .data = from->data, .element = storages[param->storage].bytes, .dims = param->dims + 1};
    tensor.dim[param->dims].name = "element"; /* its last dimension: any stride is allowed before it */
    tensor.dim[param->dims].extent = 1;
    for (int d = 0; d < param->dims; d++) {
        tensor.dim[d].name = dims[d];
        tensor.dim[d].stride = steps[d];
        tensor.dim[d].extent = from->size[d];
        tensor.dim[d].step = to->stride[d];
    }
    if (tensor_check(&tensor, failure) != ATT_OK)
        return failure->status;
    for (int i = 0; i < arguments->tensors; i++)
        if (arguments->tensor[i].output && tensor_check_overlap(&arguments->tensor[i], &tensor, failure) != ATT_OK)
            return failure->status;
    arguments->memory[arguments->memories++] = (struct memory){param->name, tensor.begin, tensor.end};
    to->data = from->data;
    return ATT_OK;
}

/* ----------------------------------------------------------------------------------------------------------------- */

static enum att_status check_type(const struct formula_scope *scope, int number, const struct att_param *from,
                                  struct failure *failure) {
    enum formula_storage storage = scope->param[number].storage;
    if (from->type == storages[storage].type)
        return ATT_OK;
    failure_set(failure, ATT_INVALID_ARGUMENT, "%s: its type is %s, expected %s", scope->param[number].name,
                type_name(from->type), storages[storage].name);
    add_declaration(scope, number, failure);
    return failure->status;
}

static enum att_status check_indices(const struct formula_set *set, const struct formula_env *env,
                                     struct failure *failure) {
    char message[FORMULA_MESSAGE];
    if (set->mask && !formula_check_indices(set->mask, env, message))
        return failure_set(failure, ATT_INVALID_ARGUMENT, "mask: %s", message);
    if (set->score && !formula_check_indices(set->score, env, message))
        return failure_set(failure, ATT_INVALID_ARGUMENT, "score: %s", message);
    return ATT_OK;
}

/* The environment of formulas at a launch; the caller sets its scalars later. */
static struct formula_env env_of(const struct shape *shape, const union formula_value scalar[FORMULA_PARAMS]) {
    return (struct formula_env){.name = {[FORMULA_BATCH] = shape->batch,
                                         [FORMULA_HEADS] = shape->heads,
                                         [FORMULA_KV_HEADS] = shape->kv_heads,
                                         [FORMULA_LEN_Q] = shape->len_q,
                                         [FORMULA_LEN_KV] = shape->len_kv},
                                .scalar = scalar};
}

/* Matches the arguments to the parameters and reads the scalars. */
static enum att_status read_scalars(const struct formula_scope *scope, const struct att_attention_args *args,
                                    const struct att_param *found[FORMULA_PARAMS],
                                    struct attention_param to[FORMULA_PARAMS], union formula_value *scalar,
                                    struct failure *failure) {
    if (match(scope, args, found, failure) != ATT_OK)
        return failure->status;
    for (int i = 0; i < scope->count; i++)
        if (check_type(scope, i, found[i], failure) != ATT_OK ||
            (scope->param[i].dims == 0 && read_scalar(scope, i, found[i], &to[i], &scalar[i], failure) != ATT_OK))
            return failure->status;
    return ATT_OK;
}

enum att_status formula_args_read(const struct formula_set *set, const struct att_attention_args *args,
                                  struct arguments *arguments, struct failure *failure) {
    const struct formula_scope *scope = &set->scope;
    if (scope->count == 0 && args->param_count == 0 && !set->mask && !set->score)
        return ATT_OK;
    const struct att_param *found[FORMULA_PARAMS] = {NULL};
    union formula_value scalar[FORMULA_PARAMS] = {{0}};
    const struct formula_env env = env_of(&arguments->shape, scalar);
    struct attention_param *to = arguments_attention(arguments)->param;
    char message[FORMULA_MESSAGE];
    if (read_scalars(scope, args, found, to, scalar, failure) != ATT_OK)
        return failure->status;
    if (!formula_fits(scope, &env, message))
        return failure_set(failure, ATT_INVALID_ARGUMENT, "%s", message);
    for (int i = 0; i < scope->count; i++)
        if (scope->param[i].dims > 0 && read_tensor(scope, i, &env, found[i], &to[i], arguments, failure) != ATT_OK)
            return failure->status;
    return arguments->empty || arguments->shape.len_q == 0 ? ATT_OK : check_indices(set, &env, failure);
}

enum att_status formula_args_check(const struct formula_set *set, const struct att_attention_args *args,
                                   const struct shape *shape, struct failure *failure) {
    const struct att_param *found[FORMULA_PARAMS] = {NULL};
    struct attention_param ignored[FORMULA_PARAMS];
    union formula_value scalar[FORMULA_PARAMS] = {{0}};
    const struct formula_env env = env_of(shape, scalar);
    if (read_scalars(&set->scope, args, found, ignored, scalar, failure) != ATT_OK)
        return failure->status;
    return check_indices(set, &env, failure);
}

/* --- tables ------------------------------------------------------------------------------------------------------ */

enum { TABLE_RUN = 64, TABLE_BOUNDS = 8 }; /* as in templates/expression/bounds.cuh */

/* Computes the bytes of the table for a tensor of this shape, a multiple of the alignment; false on overflow. */
static bool table_bytes(int dims, const int64_t *size, int64_t *bytes) {
    *bytes = (size[dims - 1] + TABLE_RUN - 1) / TABLE_RUN;
    for (int d = 0; d < dims - 1; d++)
        if (__builtin_mul_overflow(*bytes, size[d], bytes))
            return false;
    if (__builtin_mul_overflow(*bytes, TABLE_BOUNDS, bytes) || *bytes > INT64_MAX - WORKSPACE_ALIGNMENT)
        return false;
    *bytes = (*bytes + WORKSPACE_ALIGNMENT - 1) / WORKSPACE_ALIGNMENT * WORKSPACE_ALIGNMENT;
    return true;
}

enum att_status formula_args_workspace(const struct formula_set *set, const struct att_attention_args *args,
                                       const struct shape *shape, size_t *bytes, struct failure *failure) {
    const struct att_param *found[FORMULA_PARAMS] = {NULL};
    struct attention_param ignored[FORMULA_PARAMS];
    union formula_value scalar[FORMULA_PARAMS] = {{0}};
    const struct formula_env env = env_of(shape, scalar);
    unsigned tabled = set->tabled;
    int64_t total = 0;
    *bytes = 0;
    if (tabled && read_scalars(&set->scope, args, found, ignored, scalar, failure) != ATT_OK)
        return failure->status;
    for (int i = 0; i < set->scope.count; i++) {
        int64_t size[FORMULA_DIMS], table;
        if (!(tabled >> i & 1))
            continue;
        for (int d = 0; d < set->scope.param[i].dims; d++)
            size[d] = formula_dim(&set->scope, i, d, &env) > 0 ? formula_dim(&set->scope, i, d, &env) : 0;
        if (!table_bytes(set->scope.param[i].dims, size, &table) || __builtin_add_overflow(total, table, &total))
            return failure_set(failure, ATT_INVALID_ARGUMENT, "%s: its sizes are too large together",
                               set->scope.param[i].name);
    }
    *bytes = (size_t)total;
    return ATT_OK;
}

void formula_args_place_tables(const struct formula_set *set, void *memory, struct arguments *arguments) {
    char *at = memory;
    for (int i = 0; i < set->scope.count; i++) {
        struct attention_param *param = &arguments_attention(arguments)->param[i];
        int dims = set->scope.param[i].dims;
        int64_t size[FORMULA_DIMS], bytes = 0;
        if (!(set->tabled >> i & 1))
            continue;
        for (int d = 0; d < dims; d++)
            size[d] = param->size[d];
        param->table = at;
        at += table_bytes(dims, size, &bytes) ? bytes : 0; /* formula_args_workspace has refused what overflows */
    }
}
