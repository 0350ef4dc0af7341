/* sequences: batches of sequences with lengths of their own (problem knobs layout, page_size, page_table): what a launch is told
   of them. */
#ifndef ATTILE_SEQUENCES_H
#define ATTILE_SEQUENCES_H

#include "arguments.h"
#include "formulas.h"

/* The dimensions of q, k, v and o but their heads and columns, and what these are called in messages. */
struct extents {
    const char *batch, *rows_q, *pages, *rows_kv;
    int64_t size_batch, size_rows_q, size_pages, size_rows_kv;
};

/* Check that all arrays are there that the layout has, and no others, and say which dimensions tensors have. Places the
   arrays behind the tensors of enum plan_tensor of `arguments`, which arguments_read checks as it does all. The numbers in them are
   not read. */
enum att_status sequences_read(const struct knobs *knobs, const struct att_attention_args *args,
                               const struct shape *shape, struct extents *extents, struct arguments *arguments,
                               struct failure *failure);

/* Set the parameters of the kernel that describe sequences; after sequences_read. */
void sequences_fill(const struct knobs *knobs, const struct att_attention_args *args, const struct shape *shape,
                    struct attention_params *params);

/* Is number `at` of an array in a range? `why` tells what the range is. */
enum att_status sequences_check_number(const char *name, int64_t at, int64_t value, int64_t least, int64_t most,
                                       const char *why, struct failure *failure);

/* Does an array begin with 0, and is each next number at least the one before, by at most `longest`, and at most `total`? */
enum att_status sequences_check_sums(const char *name, const int32_t *sums, int64_t batch, int64_t longest,
                                     int64_t total, const char *longest_name, struct failure *failure);

/* Check the numbers: lengths and page numbers in range, the indices of mask and score for each sequence. The arrays are in host
   memory here. After arguments_read and formula_args_read. */
enum att_status sequences_check(const struct knobs *knobs, const struct formula_set *formulas,
                                const struct att_attention_args *args, const struct arguments *arguments,
                                struct failure *failure);

#endif
