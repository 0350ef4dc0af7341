/* att_check: checks what att_launch checks, and the numbers in the arrays of sequences, which no launch reads on a GPU.
   Copies them to host memory, where the host device's checks read them. */
#include "read_args.h"
#include "sized.h"

#include <stdlib.h>

enum { ARRAYS = 6 };

struct copies {
    att_session *session;
    int32_t *copy[ARRAYS]; /* owned */
    int count;
};

/* Replaces `*array` by a host copy of its rows: `count` numbers each, `stride` apart. */
static enum att_status copy_array(struct copies *copies, const char *name, const int32_t **array, int64_t rows,
                                  int64_t stride, int64_t count, struct failure *failure) {
    if (!*array || rows <= 0 || count <= 0)
        return ATT_OK;
    const struct backend_type *type = copies->session->type;
    size_t bytes = (size_t)((rows - 1) * stride + count) * sizeof **array; /* arguments_read checked that they fit */
    int32_t *copy = copies->copy[copies->count++] = malloc(bytes);
    if (!copy)
        return failure_set(failure, ATT_OUT_OF_MEMORY, "out of memory for %zu bytes of %s", bytes, name);
    if (type->copy_out(copies->session->backend, copy, *array, bytes, failure) != ATT_OK) {
        failure_add(failure, "; reading %s", name);
        return failure->status;
    }
    *array = copy;
    return ATT_OK;
}

/* The number of page numbers is itself stored on the device. */
static enum att_status copy_indices(struct copies *copies, const int32_t *indptr, const int32_t **indices,
                                    int64_t batch, struct failure *failure) {
    for (int64_t b = 0; indptr && b < batch; b++)
        if (indptr[b] < 0 || indptr[b + 1] < indptr[b])
            return failure_set(failure, ATT_INVALID_ARGUMENT,
                               "page_indptr[%d] is %d and the next is %d, expected at least 0, and none that is less "
                               "than the one before",
                               (int)b, indptr[b], indptr[b + 1]);
    return indptr ? copy_array(copies, "page_indices", indices, 1, 0, indptr[batch], failure) : ATT_OK;
}

static enum att_status copy_attention(struct copies *copies, const struct knobs *knobs, const struct shape *shape,
                                      struct att_attention_args *args, struct failure *failure) {
    int64_t batch = shape->batch;
    int64_t columns = knobs->page_size > 0 ? (shape->len_kv + knobs->page_size - 1) / knobs->page_size : 0;
    int64_t stride = args->page_table_row_stride ? args->page_table_row_stride : columns;
    if (copy_array(copies, "cu_seqlens_q", &args->cu_seqlens_q, 1, 0, batch + 1, failure) != ATT_OK ||
        copy_array(copies, "cu_seqlens_kv", &args->cu_seqlens_kv, 1, 0, batch + 1, failure) != ATT_OK ||
        copy_array(copies, "lengths_kv", &args->lengths_kv, 1, 0, batch, failure) != ATT_OK ||
        copy_array(copies, "page_table", &args->page_table, batch, stride, columns, failure) != ATT_OK ||
        copy_array(copies, "page_indptr", &args->page_indptr, 1, 0, batch + 1, failure) != ATT_OK)
        return failure->status;
    return copy_indices(copies, args->page_indptr, &args->page_indices, batch, failure);
}

/* Page numbers and slots of an append may have any value: a token without a place is not written. */
static enum att_status copy_append(struct copies *copies, const struct shape *shape, struct att_append_args *args,
                                   struct failure *failure) {
    if (copy_array(copies, "cu_seqlens_q", &args->cu_seqlens_q, 1, 0, shape->batch + 1, failure) != ATT_OK)
        return failure->status;
    return copy_array(copies, "lengths_kv", &args->lengths_kv, 1, 0, shape->batch, failure);
}

static enum att_status check(const att_kernel *kernel, struct att_args *args, struct copies *copies,
                             struct failure *failure) {
    const struct knobs *knobs = &kernel->variant.knobs;
    struct arguments arguments;
    if (read_args(kernel, args, &arguments, failure) != ATT_OK)
        return failure->status;
    bool host = copies->session->type == &backend_host; /* there the arrays are in host memory */
    bool attention = family_is_attention(knobs->family) && knobs->layout > layout_dense;
    bool append = knobs->family == family_append_kv && knobs->layout > layout_dense;
    if (host || (!attention && !append))
        return read_numbers(kernel, args, &arguments, failure);
    struct att_attention_args *sequences =
        knobs->family == family_attention_backward ? &args->attention_backward.forward : &args->attention;
    if (copies->session->type->synchronize(copies->session->backend, failure) != ATT_OK ||
        (attention && copy_attention(copies, knobs, &arguments.shape, sequences, failure) != ATT_OK) ||
        (append && copy_append(copies, &arguments.shape, &args->append, failure) != ATT_OK))
        return failure->status;
    return read_numbers(kernel, args, &arguments, failure);
}

enum att_status att_check(att_kernel *kernel, const struct att_args *args) {
    struct failure failure = {0};
    struct att_args known;
    if (!kernel)
        return ATT_INVALID_ARGUMENT;
    enum att_status status = session_enter(kernel->session);
    if (status != ATT_OK)
        return status;
    struct copies copies = {.session = kernel->session};
    if (!args)
        failure_set(&failure, ATT_INVALID_ARGUMENT, "args is null, expected the arguments of %s", kernel->variant.name);
    else if (sized_read(SIZED_ARGS, "args", args, &known, &failure) == ATT_OK)
        check(kernel, &known, &copies, &failure);
    for (int i = 0; i < copies.count; i++)
        free(copies.copy[i]);
    return failure.status == ATT_OK ? ATT_OK : session_fail(kernel->session, &failure);
}
