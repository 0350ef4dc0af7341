//$ include "sequence/head.cuh"

// A key of a head: its rows of K and V.
__device__ __forceinline__ const InputKv *key_row(const attention_params &p, const Head &head, int key) {
    return head.k + key * p.k_row_stride;
}
__device__ __forceinline__ const InputKv *value_row(const attention_params &p, const Head &head, int key) {
    return head.v + key * p.v_row_stride;
}

// What its elements are multiplied by.
__device__ __forceinline__ float key_scale(const attention_params &p, const Head &head, int key) {
    return head.k_scale[key * p.k_scale_row_stride];
}
__device__ __forceinline__ float value_scale(const attention_params &p, const Head &head, int key) {
    return head.v_scale[key * p.v_scale_row_stride];
}
