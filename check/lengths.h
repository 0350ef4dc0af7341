/* lengths: how long each sequence of a batch is, and where its rows lie in memory: problem knobs layout, page_size, page_table.
   Tensors of a workload are (batch, heads, rows, columns) with the most rows that a sequence may have; a kernel's are packed or
   paged, and have no place for the rest. */
#ifndef ATTILE_LENGTHS_H
#define ATTILE_LENGTHS_H

#include "gen.h"
#include "tensor.h"

/* Rows of a tensor: of queries, of keys, or the same number for every sequence. */
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

/* Lengths within those of the shape, 0 and 1 and the most among them, and pages in random order. Where K and V are paged there are
   pages that nobody uses, and page numbers that are none behind those of a sequence. Where mask or score read tensors, no
   sequence has more queries than keys. False when memory runs out. Free it in any case. */
bool lengths_make(struct lengths *lengths, const struct knobs *problem, const struct shape *shape, uint64_t seed);
/* The same with every sequence as long as the shape says, for timing. */
bool lengths_make_full(struct lengths *lengths, const struct knobs *problem, const struct shape *shape, uint64_t seed);
void lengths_free(struct lengths *lengths);

/* Batch and rows of a workload's tensor -> those of the tensor in memory. */
void lengths_dims(const struct lengths *lengths, enum lengths_side side, int64_t *batch, int64_t *rows);

/* Where a row of a sequence is in memory. False when the sequence has no such row. */
bool lengths_locate(const struct lengths *lengths, enum lengths_side side, int64_t *batch, int64_t *row);

#endif
