//$ include "params/attention.h"
//$ include "expression/formula.cuh"
//$ include "walk/keys_seen.cuh"

// Which (query, key) pairs are seen, for built-in masks.

__device__ __forceinline__ bool sees_pair(const attention_params &p, const Where &, int query, int key) {
    return key < keys_seen(p, query);
}

// True if each of the `queries` queries from query0 on sees each of the `keys` keys from key0 on.
__device__ __forceinline__ bool all_pairs_seen(const attention_params &p, const Where &, int query0, int queries, int key0, int keys) {
    if (query0 + queries > p.len_q || key0 + keys > p.len_kv)
        return false;
    return key0 + keys <= keys_seen(p, query0);
}

// True if one of the `queries` queries from query0 on sees one of the keys from key0 on.
__device__ __forceinline__ bool some_pair_seen(const attention_params &p, const Where &, int query0, int queries, int key0, int) {
    const int last = min(query0 + queries, p.len_q) - 1;
    return key0 < keys_seen(p, last);
}
