//$ needs page_size page_table
//$ include "params/attention.h"

// What a kernel is told of all sequences -> what holds for one: the number of its keys, and its page numbers. Its tensors are
// those of all, and its index is still the batch.
__device__ __forceinline__ attention_params sequence_of(const attention_params &all, int batch) {
    attention_params p = all;
    p.len_kv = all.lengths_kv[batch];
    p.total_kv = all.max_len_kv;
    p.page_table = all.page_indices + all.page_indptr[batch];          //$ if page_table == csr
    p.page_table = all.page_table + batch * all.page_table_row_stride; //$ elif page_size > 0
    return p;
}
