//$ needs page_size page_table kv_scale append
//$ include "params/attention.h"
//$ include "sequence/element.cuh"

// What a kernel is told of all sequences -> what holds for one: its lengths, its rows of the packed tensors, its page numbers.
// Strides from one sequence to the next are 0.
__device__ __forceinline__ attention_params sequence_of(const attention_params &all, int batch) {
    attention_params p = all;
    const int first_q = all.cu_seqlens_q[batch];
    p.first_q = first_q;
    p.len_q = all.cu_seqlens_q[batch + 1] - first_q;
    p.q = static_cast<const Input *>(all.q) + first_q * all.q_row_stride;
    p.o = static_cast<Output *>(all.o) + first_q * all.o_row_stride;
    p.lse = all.lse ? all.lse + first_q : nullptr;
    p.k_new = static_cast<const Input *>(all.k_new) + first_q * all.k_new_row_stride; //$ if append == 1
    p.v_new = static_cast<const Input *>(all.v_new) + first_q * all.v_new_row_stride; //$ if append == 1
    p.q_batch_stride = p.o_batch_stride = p.lse_batch_stride = 0;
    //$ if page_size > 0
    p.len_kv = all.lengths_kv[batch];
    p.page_table = all.page_indices + all.page_indptr[batch];          //$ if page_table == csr
    p.page_table = all.page_table + batch * all.page_table_row_stride; //$ else
    //$ else
    const int first_kv = all.cu_seqlens_kv[batch];
    p.first_kv = first_kv;
    p.len_kv = all.cu_seqlens_kv[batch + 1] - first_kv;
    p.total_kv = all.total_kv - first_kv;
    p.k = static_cast<const InputKv *>(all.k) + first_kv * all.k_row_stride;
    p.v = static_cast<const InputKv *>(all.v) + first_kv * all.v_row_stride;
    //$ if kv_scale == token
    p.k_scale = all.k_scale + first_kv * all.k_scale_row_stride;
    p.v_scale = all.v_scale + first_kv * all.v_scale_row_stride;
    p.k_scale_batch_stride = p.v_scale_batch_stride = 0;
    //$ end
    p.k_batch_stride = p.v_batch_stride = 0;
    //$ end
    return p;
}
