//$ include "load/paged.cuh"
//$ include "sequence/head.cuh"

// Returns the row of K, or of V, of a key of the head. Each lies in a page.
__device__ __forceinline__ const InputKv *key_row(const attention_params &p, const Head &head, int key) {
    return head.k + paged_row(p, key, p.k_batch_stride, p.k_row_stride);
}
__device__ __forceinline__ const InputKv *value_row(const attention_params &p, const Head &head, int key) {
    return head.v + paged_row(p, key, p.v_batch_stride, p.v_row_stride);
}

// Returns the scale by which the elements of that row are multiplied.
__device__ __forceinline__ float key_scale(const attention_params &p, const Head &head, int key) {
    return head.k_scale[paged_row(p, key, p.k_scale_batch_stride, p.k_scale_row_stride)];
}
__device__ __forceinline__ float value_scale(const attention_params &p, const Head &head, int key) {
    return head.v_scale[paged_row(p, key, p.v_scale_batch_stride, p.v_scale_row_stride)];
}
