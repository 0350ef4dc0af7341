//$ needs mask
//$ include "backward/pairs_custom.cuh" if mask == custom_mask else "backward/pairs_builtin.cuh"

// Is there such a pair, and is it seen? Without a branch, so that what pairs of a tile read of a tensor is loaded at once.
__device__ __forceinline__ bool is_pair_seen(const attention_params &p, const Where &at, int query, int key) {
    return (query < p.len_q) & (key < p.len_kv) & sees_pair(p, at, min(query, p.len_q - 1), min(key, p.len_kv - 1));
}
