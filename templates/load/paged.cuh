//$ needs page_size
//$ include "params/attention.h"

// A paged K or V: the page table of the sequence (sequence_of) says in which page a key is. The key is one of the sequence: page
// numbers past its end may be anything.
__device__ __forceinline__ int page_of(const attention_params &p, int key) {
    return p.page_table[static_cast<unsigned>(key) / PAGE_SIZE];
}

// Where the row of a key begins, from the same head in page 0 on, in elements.
__device__ __forceinline__ long long paged_row(const attention_params &p, int key, long long page_stride, long long row_stride) {
    return page_of(p, key) * page_stride + static_cast<unsigned>(key) % PAGE_SIZE * row_stride;
}
