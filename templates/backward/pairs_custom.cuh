//$ include "params/attention.h"
//$ include "expression/formula.cuh"

// Which (query, key) pairs are seen, for masks that are expressions.

__device__ __forceinline__ bool sees_pair(const attention_params &p, const Where &at, int query, int key) {
    return sees(p, at, position_of(p, query), key);
}

// True if each of the `queries` queries from query0 on sees each of the `keys` keys from key0 on.
__device__ __forceinline__ bool all_pairs_seen(const attention_params &p, const Where &at, int query0, int queries, int key0,
                                               int keys) {
    if (query0 + queries > p.len_q || key0 + keys > p.len_kv)
        return false;
    return all_seen(p, at, position_of(p, query0), position_of(p, query0 + queries - 1), key0, key0 + keys - 1);
}

// True if one of the `queries` queries from query0 on sees one of the `keys` keys from key0 on.
__device__ __forceinline__ bool some_pair_seen(const attention_params &p, const Where &at, int query0, int queries, int key0,
                                               int keys) {
    const int last = min(query0 + queries, p.len_q) - 1;
    return some_seen(p, at, position_of(p, query0), position_of(p, last), key0, min(key0 + keys, p.len_kv) - 1);
}
