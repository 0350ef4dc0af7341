//$ needs page_size
//$ include "params/attention.h"

// Paged K or V: the page table of the sequence (sequence_of) gives the page of a key. The key must belong to the
// sequence: page numbers past its end may be anything.
__device__ __forceinline__ int page_of(const attention_params &p, int key) {
    return p.page_table[static_cast<unsigned>(key) / PAGE_SIZE];
}

// Returns where the row of a key begins, in elements from row 0 of the same head in page 0.
__device__ __forceinline__ long long paged_row(const attention_params &p, int key, long long page_stride, long long row_stride) {
    return page_of(p, key) * page_stride + static_cast<unsigned>(key) % PAGE_SIZE * row_stride;
}
