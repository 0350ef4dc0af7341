#include "gradient_args.h"
#include "tensor_check.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

/* Sets found[i] to the argument for parameter i. */
static enum att_status match(const struct formula_set *set, const struct att_attention_backward_args *args,
                             const struct att_param_gradient *found[FORMULA_PARAMS], struct failure *failure) {
    if (args->param_gradient_count < 0 || (args->param_gradient_count > 0 && !args->param_gradients))
        return failure_set(failure, ATT_INVALID_ARGUMENT, "param_gradients is null with param_gradient_count %d",
                           args->param_gradient_count);
    for (int i = 0; i < args->param_gradient_count; i++) {
        const char *name = args->param_gradients[i].name;
        int number = name ? formula_param_find(&set->scope, name) : -1;
        if (number < 0 || !(set->wants.params >> number & 1))
            return failure_set(failure, ATT_INVALID_ARGUMENT,
                               name ? "param_gradients[%d]: the problem does not want 'd_%.*s' (knob wants)"
                                    : "param_gradients[%d]: its name is null%.*s",
                               i, FORMULA_PARAM_NAME, name ? name : "");
        if (found[number])
            return failure_set(failure, ATT_INVALID_ARGUMENT, "param_gradients[%d]: '%s' is given twice", i, name);
        found[number] = &args->param_gradients[i];
    }
    for (int i = 0; i < set->scope.count; i++)
        if (set->wants.params >> i & 1 && !found[i])
            return failure_set(failure, ATT_INVALID_ARGUMENT,
                               "param_gradients: '%s' is missing; the problem wants d_%s (knob wants)",
                               set->scope.param[i].name, set->scope.param[i].name);
    return ATT_OK;
}

static void set_strides(int dims, const struct att_param_gradient *from, struct param_gradient *to) {
    bool given = false;
    long long next = 1;
    for (int d = dims - 1; d >= 0; d--) {
        to->stride[d] = next;
        if (__builtin_mul_overflow(next, from->size[d], &next))
            next = INT64_MAX; /* tensor_check refuses it */
        given = given || from->stride[d] != 0;
    }
    for (int d = 0; given && d < dims; d++)
        to->stride[d] = from->stride[d] == ATT_REPEAT ? 0 : from->stride[d];
    for (int d = 0; d < 4; d++)
        to->size[d] = d < dims && to->stride[d] ? (int)from->size[d] : 1;
}

static enum att_status read_one(const struct formula_param *param, const struct attention_param *sizes,
                                const struct att_param_gradient *from, struct param_gradient *to,
                                struct arguments *arguments, struct failure *failure) {
    static const char *const dims[] = {"size[0]", "size[1]", "size[2]", "size[3]"};
    static const char *const steps[] = {"stride[0]", "stride[1]", "stride[2]", "stride[3]"};
    for (int d = 0; d < param->dims; d++)
        if (from->size[d] != sizes->size[d])
            return failure_set(failure, ATT_INVALID_ARGUMENT,
                               "d_%s: size[%d] is %" PRId64 ", expected %d, as of the parameter", param->name, d,
                               from->size[d], sizes->size[d]);
    set_strides(param->dims, from, to);
    to->data = from->data;
    char name[FORMULA_PARAM_NAME + 2];
    snprintf(name, sizeof name, "d_%s", param->name);
    struct tensor tensor = {
        .name = name, .data = from->data, .element = (int)sizeof(float), .output = true, .dims = param->dims + 1};
    tensor.dim[param->dims].name = "element"; /* its last dimension: any stride is allowed before it */
    tensor.dim[param->dims].extent = 1;
    for (int d = 0; d < param->dims; d++) {
        tensor.dim[d].name = dims[d];
        tensor.dim[d].stride = steps[d];
        tensor.dim[d].extent = from->size[d] == 0 ? 0 : to->size[d];
        tensor.dim[d].step = to->stride[d];
    }
    if (tensor_check(&tensor, failure) != ATT_OK)
        return failure->status;
    for (int i = 0; i < arguments->tensors; i++)
        if (tensor_check_overlap(&tensor, &arguments->tensor[i], failure) != ATT_OK)
            return failure->status;
    for (int i = 0; i < arguments->memories; i++) {
        const struct memory *memory = &arguments->memory[i];
        const struct tensor other = {.name = memory->name, .begin = memory->begin, .end = memory->end};
        if (tensor_check_overlap(&tensor, &other, failure) != ATT_OK)
            return failure->status;
    }
    arguments->memory[arguments->memories++] = (struct memory){param->name, tensor.begin, tensor.end};
    return ATT_OK;
}

enum att_status gradient_args_read(const struct formula_set *set, const struct att_attention_backward_args *args,
                                   struct arguments *arguments, struct failure *failure) {
    const struct att_param_gradient *found[FORMULA_PARAMS] = {NULL};
    struct attention_backward_params *params = &arguments->params.attention_backward;
    _Static_assert(sizeof params->d_param / sizeof *params->d_param == FORMULA_PARAMS, "one for each parameter");
    if (match(set, args, found, failure) != ATT_OK)
        return failure->status;
    for (int i = 0; i < set->scope.count; i++)
        if (found[i] && read_one(&set->scope.param[i], &params->forward.param[i], found[i], &params->d_param[i],
                                 arguments, failure) != ATT_OK)
            return failure->status;
    if (!set->wants.params) {
        arguments->params_begin = offsetof(struct attention_backward_params, d_o);
        arguments->params_size -= arguments->params_begin;
    }
    return ATT_OK;
}
