//$ include "load/paged.cuh"
//$ include "sequence/head.cuh"

// A key of a head: its rows of K and V, each in a page.
__device__ __forceinline__ const InputKv *key_row(const attention_params &p, const Head &head, int key) {
    return head.k + paged_row(p, key, p.k_batch_stride, p.k_row_stride);
}
__device__ __forceinline__ const InputKv *value_row(const attention_params &p, const Head &head, int key) {
    return head.v + paged_row(p, key, p.v_batch_stride, p.v_row_stride);
}

// What its elements are multiplied by.
__device__ __forceinline__ float key_scale(const attention_params &p, const Head &head, int key) {
    return head.k_scale[paged_row(p, key, p.k_scale_batch_stride, p.k_scale_row_stride)];
}
__device__ __forceinline__ float value_scale(const attention_params &p, const Head &head, int key) {
    return head.v_scale[paged_row(p, key, p.v_scale_batch_stride, p.v_scale_row_stride)];
}
