//$ needs page_size page_table kv_scale append
//$ include "params/attention.h"
//$ include "sequence/element.cuh"

// Parameters of one sequence: its lengths, its rows of the packed tensors, its page numbers.
struct SequenceNumbers {
    int first_q, len_q;
    int first_kv; //$ if page_size == 0
    int len_kv;
    const int *page_table; //$ if page_size > 0
};

__device__ __forceinline__ SequenceNumbers sequence_numbers(const attention_params &all, int batch) {
    SequenceNumbers its;
    its.first_q = all.cu_seqlens_q[batch];
    its.len_q = all.cu_seqlens_q[batch + 1] - its.first_q;
    //$ if page_size > 0
    its.len_kv = all.lengths_kv[batch];
    its.page_table = all.page_indices + all.page_indptr[batch];          //$ if page_table == csr
    its.page_table = all.page_table + batch * all.page_table_row_stride; //$ else
    //$ else
    its.first_kv = all.cu_seqlens_kv[batch];
    its.len_kv = all.cu_seqlens_kv[batch + 1] - its.first_kv;
    //$ end
    return its;
}

// Turns the parameters of all sequences into those of one. Strides from one sequence to the next are 0.
__device__ __forceinline__ attention_params sequence_of(const attention_params &all, const SequenceNumbers &its) {
    attention_params p = all;
    p.first_q = its.first_q;
    p.len_q = its.len_q;
    p.q = static_cast<const Input *>(all.q) + its.first_q * all.q_row_stride;
    p.o = static_cast<Output *>(all.o) + its.first_q * all.o_row_stride;
    p.lse = all.lse ? all.lse + its.first_q : nullptr;
    p.k_new = static_cast<const Input *>(all.k_new) + its.first_q * all.k_new_row_stride; //$ if append == 1
    p.v_new = static_cast<const Input *>(all.v_new) + its.first_q * all.v_new_row_stride; //$ if append == 1
    p.q_batch_stride = p.o_batch_stride = p.lse_batch_stride = 0;
    p.len_kv = its.len_kv;
    //$ if page_size > 0
    p.page_table = its.page_table;
    //$ else
    p.first_kv = its.first_kv;
    p.total_kv = all.total_kv - its.first_kv;
    p.k = static_cast<const InputKv *>(all.k) + its.first_kv * all.k_row_stride;
    p.v = static_cast<const InputKv *>(all.v) + its.first_kv * all.v_row_stride;
    //$ if kv_scale == token
    p.k_scale = all.k_scale + its.first_kv * all.k_scale_row_stride;
    p.v_scale = all.v_scale + its.first_kv * all.v_scale_row_stride;
    p.k_scale_batch_stride = p.v_scale_batch_stride = 0;
    //$ end
    p.k_batch_stride = p.v_batch_stride = 0;
    //$ end
    return p;
}
__device__ __forceinline__ attention_params sequence_of(const attention_params &all, int batch) {
    return sequence_of(all, sequence_numbers(all, batch));
}
