#include "tensor_check.h"

#include <inttypes.h>
#include <stdint.h>

static void add_shape(const struct tensor *tensor, struct failure *failure) {
    failure_add(failure, "; %s has shape (", tensor->name);
    for (int i = 0; i < tensor->dims; i++)
        failure_add(failure, "%s%s %" PRId64, i ? ", " : "", tensor->dim[i].name, tensor->dim[i].extent);
    failure_add(failure, ") and strides (");
    for (int i = 0; i + 1 < tensor->dims; i++)
        failure_add(failure, "%s%s %" PRId64, i ? ", " : "", tensor->dim[i].stride, tensor->dim[i].step);
    failure_add(failure, ")");
}

static bool is_empty(const struct tensor *tensor) {
    for (int i = 0; i < tensor->dims; i++)
        if (tensor->dim[i].extent == 0)
            return true;
    return false;
}

/* Computes the number of elements from the first to the last one touched, both included; false on overflow. */
static bool measure_span(const struct tensor *tensor, int64_t *span) {
    *span = tensor->dim[tensor->dims - 1].extent;
    for (int i = 0; i + 1 < tensor->dims; i++) {
        int64_t reach;
        if (__builtin_mul_overflow(tensor->dim[i].extent - 1, tensor->dim[i].step, &reach) ||
            __builtin_add_overflow(*span, reach, span))
            return false;
    }
    return true;
}

/* Checks that no two elements share memory: going from the smallest stride to the largest, each must step over
   everything before it. */
static enum att_status check_disjoint(const struct tensor *tensor, struct failure *failure) {
    bool taken[TENSOR_DIMS] = {false};
    int64_t span = tensor->dim[tensor->dims - 1].extent;
    for (;;) {
        int next = -1;
        for (int i = tensor->dims - 2; i >= 0; i--)
            if (!taken[i] && tensor->dim[i].extent > 1 && (next < 0 || tensor->dim[i].step < tensor->dim[next].step))
                next = i;
        if (next < 0)
            return ATT_OK;
        if (tensor->dim[next].step < span) {
            failure_set(failure, ATT_INVALID_ARGUMENT,
                        "%s: %s is %" PRId64 ", expected at least %" PRId64
                        ", or elements of the output would share memory",
                        tensor->name, tensor->dim[next].stride, tensor->dim[next].step, span);
            add_shape(tensor, failure);
            return failure->status;
        }
        span += (tensor->dim[next].extent - 1) * tensor->dim[next].step; /* measure_span has excluded overflow */
        taken[next] = true;
    }
}

enum att_status tensor_check(struct tensor *tensor, struct failure *failure) {
    tensor->begin = tensor->end = (uintptr_t)tensor->data;
    if (is_empty(tensor))
        return ATT_OK;
    for (int i = 0; i + 1 < tensor->dims; i++)
        if (tensor->dim[i].step < 0) {
            failure_set(failure, ATT_INVALID_ARGUMENT, "%s: %s is %" PRId64 ", expected 0 or more", tensor->name,
                        tensor->dim[i].stride, tensor->dim[i].step);
            add_shape(tensor, failure);
            return failure->status;
        }
    int64_t elements = 1, span, bytes;
    bool possible = measure_span(tensor, &span) && !__builtin_mul_overflow(span, tensor->element, &bytes);
    for (int i = 0; possible && i < tensor->dims; i++)
        possible = !__builtin_mul_overflow(elements, tensor->dim[i].extent, &elements);
    if (!possible || tensor->begin > UINTPTR_MAX - (uint64_t)bytes) {
        failure_set(failure, ATT_INVALID_ARGUMENT, "%s: its sizes and strides reach past the end of any memory",
                    tensor->name);
        add_shape(tensor, failure);
        return failure->status;
    }
    if (!tensor->data) {
        failure_set(failure, ATT_INVALID_ARGUMENT, "%s is null, expected a pointer to %" PRId64 " elements",
                    tensor->name, elements);
        add_shape(tensor, failure);
        return failure->status;
    }
    if (tensor->begin % (uintptr_t)tensor->element)
        return failure_set(failure, ATT_INVALID_ARGUMENT, "%s: address %p is not aligned to its elements of %d bytes",
                           tensor->name, tensor->data, tensor->element);
    tensor->end = tensor->begin + (uintptr_t)bytes;
    return tensor->output ? check_disjoint(tensor, failure) : ATT_OK;
}

static bool same_place(const struct tensor *a, const struct tensor *b) {
    bool same = a->begin == b->begin && a->end == b->end && a->dims == b->dims && a->element == b->element;
    for (int i = 0; same && i + 1 < a->dims; i++)
        same = a->dim[i].step == b->dim[i].step;
    return same;
}

enum att_status tensor_check_overlap(const struct tensor *output, const struct tensor *other, struct failure *failure) {
    if (output->begin >= other->end || other->begin >= output->end || output->begin == output->end ||
        other->begin == other->end)
        return ATT_OK;
    if (output->in_place && same_place(output, other))
        return ATT_OK;
    return failure_set(failure, ATT_INVALID_ARGUMENT,
                       "%s overlaps %s: bytes %p to %p and %p to %p; an output needs memory of its own", output->name,
                       other->name, (void *)output->begin, (void *)output->end, (void *)other->begin,
                       (void *)other->end);
}
