//$ include "params/attention.h"
//$ include "expression/formula.cuh"

// Which pairs of a query and a key count, for masks that are expressions.

__device__ __forceinline__ bool sees_pair(const attention_params &p, const Where &at, int query, int key) {
    return sees(p, at, position_of(p, query), key);
}

// Does every query from query0 on see every key from key0 on, so many of each?
__device__ __forceinline__ bool all_pairs_seen(const attention_params &p, const Where &at, int query0, int queries, int key0,
                                               int keys) {
    if (query0 + queries > p.len_q || key0 + keys > p.len_kv)
        return false;
    return all_seen(p, at, position_of(p, query0), position_of(p, query0 + queries - 1), key0, key0 + keys - 1);
}

// Does one of them see one of those?
__device__ __forceinline__ bool some_pair_seen(const attention_params &p, const Where &at, int query0, int queries, int key0,
                                               int keys) {
    const int last = min(query0 + queries, p.len_q) - 1;
    return some_seen(p, at, position_of(p, query0), position_of(p, last), key0, min(key0 + keys, p.len_kv) - 1);
}
