// How many keys a query sees: keys 0 .. seen - 1. Keys that are not seen are never multiplied by anything, so whatever
// they hold, NaN included, stays out of the row. The last query and the last key are aligned; subtracting first keeps the
// sum within int.
__device__ __forceinline__ int keys_seen(const attention_params &p, int query) {
    return max(0, query - p.len_q + p.len_kv + 1);
}
