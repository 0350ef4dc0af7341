// Returns how many keys a query sees: keys 0 .. seen - 1. The last query and the last key are aligned. Subtracting first
// keeps the sum within int.
__device__ __forceinline__ int keys_seen(const attention_params &p, int query) {
    return max(0, query - p.len_q + p.len_kv + 1);
}
