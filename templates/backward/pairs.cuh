//$ needs mask
//$ include "backward/pairs_custom.cuh" if mask == custom_mask else "backward/pairs_builtin.cuh"

// True if the pair exists and is seen. There is no branch, so that what the pairs of a tile read from a tensor is loaded at once.
__device__ __forceinline__ bool is_pair_seen(const attention_params &p, const Where &at, int query, int key) {
    return (query < p.len_q) & (key < p.len_kv) & sees_pair(p, at, min(query, p.len_q - 1), min(key, p.len_kv - 1));
}
