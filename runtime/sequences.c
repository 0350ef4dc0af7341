#include "sequences.h"
#include "formula_args.h"

#include <inttypes.h>
#include <limits.h>

enum { ROWS_MOST = INT_MAX - 1023 }; /* as sizes of tensors */

/* --- which arrays a layout has ------------------------------------------------------------------------------------- */

struct array {
    const char *name;
    const int32_t *data;
    bool wanted;
    int64_t rows, row_stride, count; /* elements of a row */
};

enum { ARRAYS = 6 };

static bool is_paged(const struct knobs *knobs) { return knobs->page_size > 0; }

static int64_t pages_of(const struct knobs *knobs, int64_t keys) {
    return (keys + knobs->page_size - 1) / knobs->page_size;
}

static int64_t table_stride(const struct knobs *knobs, const struct att_attention_args *args,
                            const struct shape *shape) {
    return args->page_table_row_stride || !is_paged(knobs) ? args->page_table_row_stride
                                                           : pages_of(knobs, shape->len_kv);
}

static void list_arrays(const struct knobs *knobs, const struct att_attention_args *args, const struct shape *shape,
                        struct array array[ARRAYS]) {
    bool ragged = knobs->layout == layout_ragged, paged = is_paged(knobs);
    bool table = paged && knobs->page_table != page_table_csr, csr = paged && !table;
    int64_t batch = shape->batch;
    array[0] = (struct array){"cu_seqlens_q", args->cu_seqlens_q, ragged, 1, 0, batch + 1};
    array[1] = (struct array){"cu_seqlens_kv", args->cu_seqlens_kv, ragged && !paged, 1, 0, batch + 1};
    array[2] = (struct array){"lengths_kv", args->lengths_kv, knobs->layout == layout_padded || paged, 1, 0, batch};
    array[3] = (struct array){"page_table",
                              args->page_table,
                              table,
                              batch,
                              table_stride(knobs, args, shape),
                              table ? pages_of(knobs, shape->len_kv) : 0};
    array[4] = (struct array){"page_indptr", args->page_indptr, csr, 1, 0, batch + 1};
    array[5] = (struct array){"page_indices", args->page_indices, csr, 1, 0, 0}; /* as many as page_indptr says */
}

static void add_problem(const struct knobs *knobs, struct failure *failure) {
    failure_add(failure, "; the kernel's problem has layout=%s", knob_word_name(KNOB_layout, knobs->layout));
    if (is_paged(knobs))
        failure_add(failure, " page_size=%d page_table=%s", knobs->page_size,
                    knob_word_name(KNOB_page_table, knobs->page_table));
}

static enum att_status check_arrays(const struct knobs *knobs, const struct array array[ARRAYS],
                                    struct failure *failure) {
    for (int i = 0; i < ARRAYS; i++) {
        bool needed = array[i].wanted && (array[i].count > 0 || i == ARRAYS - 1);
        if (needed && !array[i].data)
            failure_set(failure, ATT_INVALID_ARGUMENT, "%s is null, expected int32 numbers in device memory",
                        array[i].name);
        else if (!array[i].wanted && array[i].data)
            failure_set(failure, ATT_INVALID_ARGUMENT, "%s is given, and this kernel takes none", array[i].name);
        else
            continue;
        add_problem(knobs, failure);
        return failure->status;
    }
    return ATT_OK;
}

static enum att_status check_total(const struct knobs *knobs, const char *name, int64_t total, bool wanted,
                                   struct failure *failure) {
    int64_t most = wanted ? ROWS_MOST : 0;
    if (total >= 0 && total <= most)
        return ATT_OK;
    failure_set(failure, ATT_INVALID_ARGUMENT, "%s is %" PRId64 ", expected 0 to %" PRId64, name, total, most);
    add_problem(knobs, failure);
    return failure->status;
}

static enum att_status check_sizes(const struct knobs *knobs, const struct att_attention_args *args,
                                   const struct shape *shape, struct failure *failure) {
    bool ragged = knobs->layout == layout_ragged, paged = is_paged(knobs);
    if (check_total(knobs, "total_q", args->total_q, ragged, failure) != ATT_OK ||
        check_total(knobs, "total_kv", args->total_kv, ragged && !paged, failure) != ATT_OK ||
        check_total(knobs, "pages", args->pages, paged, failure) != ATT_OK)
        return failure->status;
    if (!paged || knobs->page_table == page_table_csr)
        return ATT_OK;
    int64_t stride = args->page_table_row_stride, least = pages_of(knobs, shape->len_kv);
    if (stride != 0 && stride < least)
        return failure_set(failure, ATT_INVALID_ARGUMENT,
                           "page_table_row_stride is %" PRId64 ", expected at least %" PRId64
                           ", the pages of len_kv keys, or 0 for as many",
                           stride, least);
    return ATT_OK;
}

enum att_status sequences_read(const struct knobs *knobs, const struct att_attention_args *args,
                               const struct shape *shape, struct extents *extents, struct arguments *arguments,
                               struct failure *failure) {
    struct array array[ARRAYS];
    list_arrays(knobs, args, shape, array);
    *extents =
        (struct extents){"batch", "len_q", "batch", "len_kv", shape->batch, shape->len_q, shape->batch, shape->len_kv};
    arguments->tensors = plan_tensors_of(knobs->family);
    if (check_arrays(knobs, array, failure) != ATT_OK || check_sizes(knobs, args, shape, failure) != ATT_OK)
        return failure->status;
    for (int i = 0; i < ARRAYS; i++)
        if (array[i].wanted && array[i].count > 0)
            arguments->tensor[arguments->tensors++] =
                (struct tensor){.name = array[i].name,
                                .data = array[i].data,
                                .element = (int)sizeof(int32_t),
                                .dims = 2,
                                .dim = {{"rows", "row_stride", array[i].rows, array[i].row_stride},
                                        {"numbers", NULL, array[i].count, 1}}};
    if (knobs->layout == layout_ragged) {
        extents->rows_q = "total_q", extents->size_batch = 1, extents->size_rows_q = args->total_q;
        extents->rows_kv = "total_kv", extents->size_pages = 1, extents->size_rows_kv = args->total_kv;
    }
    if (is_paged(knobs)) {
        extents->pages = "pages", extents->size_pages = args->pages;
        extents->rows_kv = "page_size", extents->size_rows_kv = knobs->page_size;
    }
    return ATT_OK;
}

void sequences_fill(const struct knobs *knobs, const struct att_attention_args *args, const struct shape *shape,
                    struct attention_params *params) {
    params->cu_seqlens_q = args->cu_seqlens_q;
    params->cu_seqlens_kv = args->cu_seqlens_kv;
    params->lengths_kv = args->lengths_kv;
    params->page_table = args->page_table;
    params->page_indptr = args->page_indptr;
    params->page_indices = args->page_indices;
    params->page_table_row_stride = table_stride(knobs, args, shape);
    params->pages = (int)args->pages;
    params->total_q = (int)args->total_q;
    params->total_kv = (int)args->total_kv;
    params->max_len_q = (int)shape->len_q;
    params->max_len_kv = (int)shape->len_kv;
}

/* --- the numbers --------------------------------------------------------------------------------------------------- */

enum att_status sequences_check_number(const char *name, int64_t at, int64_t value, int64_t least, int64_t most,
                                       const char *why, struct failure *failure) {
    if (value >= least && value <= most)
        return ATT_OK;
    return failure_set(failure, ATT_INVALID_ARGUMENT,
                       "%s[%" PRId64 "] is %" PRId64 ", expected %" PRId64 " to %" PRId64 " (%s)", name, at, value,
                       least, most, why);
}

enum att_status sequences_check_sums(const char *name, const int32_t *sums, int64_t batch, int64_t longest,
                                     int64_t total, const char *longest_name, struct failure *failure) {
    if (sequences_check_number(name, 0, sums[0], 0, 0, "where the first sequence begins", failure) != ATT_OK)
        return failure->status;
    for (int64_t b = 0; b < batch; b++) {
        int64_t most = sums[b] + longest;
        if (sequences_check_number(name, b + 1, sums[b + 1], sums[b], most < total ? most : total, longest_name,
                                   failure) != ATT_OK)
            return failure->status;
    }
    return ATT_OK;
}

static enum att_status check_pages(const struct knobs *knobs, const struct att_attention_args *args,
                                   const struct shape *shape, int64_t b, struct failure *failure) {
    bool csr = knobs->page_table == page_table_csr;
    const int32_t *numbers =
        csr ? args->page_indices + args->page_indptr[b] : args->page_table + b * table_stride(knobs, args, shape);
    int64_t count = pages_of(knobs, args->lengths_kv[b]);
    if (csr && sequences_check_number("page_indptr", b, args->page_indptr[b], 0, INT32_MAX, "where page numbers begin",
                                      failure) != ATT_OK)
        return failure->status;
    if (csr && sequences_check_number("page_indptr", b + 1, args->page_indptr[b + 1], args->page_indptr[b] + count,
                                      INT32_MAX, "as many pages as lengths_kv needs", failure) != ATT_OK)
        return failure->status;
    for (int64_t i = 0; i < count; i++) {
        if (numbers[i] >= 0 && numbers[i] < args->pages)
            continue;
        return failure_set(failure, ATT_INVALID_ARGUMENT,
                           "page %" PRId64 " of sequence %" PRId64 " is %d, expected 0 to %" PRId64
                           ": there are %" PRId64 " pages",
                           i, b, numbers[i], args->pages - 1, args->pages);
    }
    return ATT_OK;
}

static enum att_status check_lengths(const struct knobs *knobs, const struct att_attention_args *args,
                                     const struct shape *shape, struct failure *failure) {
    if (args->cu_seqlens_q &&
        sequences_check_sums("cu_seqlens_q", args->cu_seqlens_q, shape->batch, shape->len_q, args->total_q,
                             "the begin of the sequence, and len_q or total_q", failure) != ATT_OK)
        return failure->status;
    if (args->cu_seqlens_kv &&
        sequences_check_sums("cu_seqlens_kv", args->cu_seqlens_kv, shape->batch, shape->len_kv, args->total_kv,
                             "the begin of the sequence, and len_kv or total_kv", failure) != ATT_OK)
        return failure->status;
    for (int64_t b = 0; args->lengths_kv && b < shape->batch; b++)
        if (sequences_check_number("lengths_kv", b, args->lengths_kv[b], 0, shape->len_kv, "len_kv is the most",
                                   failure) != ATT_OK ||
            (is_paged(knobs) && check_pages(knobs, args, shape, b, failure) != ATT_OK))
            return failure->status;
    return ATT_OK;
}

enum att_status sequences_check(const struct knobs *knobs, const struct formula_set *formulas,
                                const struct att_attention_args *args, const struct arguments *arguments,
                                struct failure *failure) {
    const struct shape *shape = &arguments->shape;
    if (knobs->layout <= layout_dense)
        return ATT_OK;
    if (check_lengths(knobs, args, shape, failure) != ATT_OK)
        return failure->status;
    for (int64_t b = 0; b < shape->batch; b++) {
        struct shape own = *shape;
        if (args->cu_seqlens_q)
            own.len_q = args->cu_seqlens_q[b + 1] - args->cu_seqlens_q[b];
        own.len_kv = args->lengths_kv ? args->lengths_kv[b] : args->cu_seqlens_kv[b + 1] - args->cu_seqlens_kv[b];
        if (own.len_q == 0 || own.len_kv == 0 || formula_args_check(formulas, args, &own, failure) == ATT_OK)
            continue;
        failure_add(failure, "; in sequence %" PRId64 ", of %" PRId64 " queries and %" PRId64 " keys", b, own.len_q,
                    own.len_kv);
        return failure->status;
    }
    return ATT_OK;
}
