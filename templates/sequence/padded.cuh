//$ needs page_size page_table
//$ include "params/attention.h"

// Parameters of one sequence: its number of keys and its page numbers. It uses the tensors of all sequences, and its index is still
// the batch.
struct SequenceNumbers {
    int len_kv;
    const int *page_table; //$ if page_size > 0
};

__device__ __forceinline__ SequenceNumbers sequence_numbers(const attention_params &all, int batch) {
    SequenceNumbers its;
    its.len_kv = all.lengths_kv[batch];
    its.page_table = all.page_indices + all.page_indptr[batch];          //$ if page_table == csr
    its.page_table = all.page_table + batch * all.page_table_row_stride; //$ elif page_size > 0
    return its;
}

// Turns the parameters of all sequences into those of one.
__device__ __forceinline__ attention_params sequence_of(const attention_params &all, const SequenceNumbers &its) {
    attention_params p = all;
    p.len_kv = its.len_kv;
    p.total_kv = all.max_len_kv;
    p.page_table = its.page_table; //$ if page_size > 0
    return p;
}
__device__ __forceinline__ attention_params sequence_of(const attention_params &all, int batch) {
    return sequence_of(all, sequence_numbers(all, batch));
}
