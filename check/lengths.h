/* lengths: how long each sequence of a batch is, and where its rows lie in memory (problem knobs layout, page_size,
   page_table). Tensors of a workload are (batch, heads, rows, columns), where rows is the most that a sequence may
   have. The tensors of a kernel are packed or paged, and have no room for rows that do not exist. */
#ifndef ATTILE_LENGTHS_H
#define ATTILE_LENGTHS_H

#include "gen.h"
#include "tensor.h"

/* What the rows of a tensor are: queries, keys, or the same number of rows for every sequence. */
enum lengths_side { LENGTHS_EQUAL, LENGTHS_Q, LENGTHS_KV };

struct lengths {
    int layout, page_size, page_table; /* knobs */
    int64_t batch;
    int64_t *len_q, *len_kv;               /* (batch); owned, as are the arrays below */
    int32_t *cu_seqlens_q, *cu_seqlens_kv; /* (batch + 1) */
    int32_t *lengths_kv;                   /* (batch) */
    int64_t pages, columns;                /* pages of K and V; row stride of the page table */
    int32_t *table;                        /* (batch, columns) */
    int32_t *indptr, *indices;             /* (batch + 1), (indptr[batch]) */
};

/* Makes lengths up to those of the shape, with 0, 1 and the maximum among them, and pages in random order. If K and V
   are paged, some pages are unused, and table entries past the end of a sequence are invalid page numbers. Where mask
   or score read tensors and queries are packed, no sequence with keys has more queries than keys. False when memory
   runs out. Free it in any case. */
bool lengths_make(struct lengths *lengths, const struct knobs *problem, const struct shape *shape, uint64_t seed);
/* The same with every sequence at the lengths of the shape, for timing. */
bool lengths_make_full(struct lengths *lengths, const struct knobs *problem, const struct shape *shape, uint64_t seed);
void lengths_free(struct lengths *lengths);

/* Converts batch and rows of a workload's tensor to those of the tensor in memory. */
void lengths_dims(const struct lengths *lengths, enum lengths_side side, int64_t *batch, int64_t *rows);

/* Maps a row of a sequence to its place in memory. False when the sequence has no such row. */
bool lengths_locate(const struct lengths *lengths, enum lengths_side side, int64_t *batch, int64_t *row);

#endif
