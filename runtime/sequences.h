/* sequences: batches of sequences with lengths of their own (problem knobs layout, page_size, page_table): their launch
   arguments. */
#ifndef ATTILE_SEQUENCES_H
#define ATTILE_SEQUENCES_H

#include "arguments.h"
#include "formulas.h"

/* The dimensions of q, k, v and o except heads and columns, and their names in messages. */
struct extents {
    const char *batch, *rows_q, *pages, *rows_kv;
    int64_t size_batch, size_rows_q, size_pages, size_rows_kv;
};

/* Checks that exactly the arrays of the layout are given, and sets the dimensions of the tensors. Places the arrays
   after the tensors of enum plan_tensor in `arguments`, which arguments_read checks like all others. Does not read the
   numbers in them. */
enum att_status sequences_read(const struct knobs *knobs, const struct att_attention_args *args,
                               const struct shape *shape, struct extents *extents, struct arguments *arguments,
                               struct failure *failure);

/* Sets the parameters of the kernel that describe sequences; call it after sequences_read. */
void sequences_fill(const struct knobs *knobs, const struct att_attention_args *args, const struct shape *shape,
                    struct attention_params *params);

/* Checks that number `at` of an array is in a range. `why` explains the range. */
enum att_status sequences_check_number(const char *name, int64_t at, int64_t value, int64_t least, int64_t most,
                                       const char *why, struct failure *failure);

/* Checks that an array begins with 0, and that each next number is at least the previous one, at most `longest` more
   than it, and at most `total`. */
enum att_status sequences_check_sums(const char *name, const int32_t *sums, int64_t batch, int64_t longest,
                                     int64_t total, const char *longest_name, struct failure *failure);

/* Checks the numbers: lengths and page numbers in range, and the indices of mask and score for each sequence. The
   arrays are in host memory here. Call it after arguments_read and formula_args_read. */
enum att_status sequences_check(const struct knobs *knobs, const struct formula_set *formulas,
                                const struct att_attention_args *args, const struct arguments *arguments,
                                struct failure *failure);

#endif
