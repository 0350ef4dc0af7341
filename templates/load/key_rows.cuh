//$ include "sequence/head.cuh"

// Returns the row of K, or of V, of a key of the head.
__device__ __forceinline__ const InputKv *key_row(const attention_params &p, const Head &head, int key) {
    return head.k + key * p.k_row_stride;
}
__device__ __forceinline__ const InputKv *value_row(const attention_params &p, const Head &head, int key) {
    return head.v + key * p.v_row_stride;
}

// Returns the scale by which the elements of that row are multiplied.
__device__ __forceinline__ float key_scale(const attention_params &p, const Head &head, int key) {
    return head.k_scale[key * p.k_scale_row_stride];
}
__device__ __forceinline__ float value_scale(const attention_params &p, const Head &head, int key) {
    return head.v_scale[key * p.v_scale_row_stride];
}
