//$ needs mask block_m step_m step_n part_keys

// Built-in masks.

// The first query that may see a key from key0 on, rounded down to a tile.
__device__ __forceinline__ int first_query(const attention_params &p, int key0) {
    return max(0, key0 - p.len_kv + p.len_q) / STEP_M * STEP_M; //$ if mask == causal
    return 0;                                                   //$ else
}

// Tiles of STEP_M queries of `left` heads from `index` on, which share the keys from key0 on.
struct QueryTiles {
    int index, left, query, key0;
};

__device__ __forceinline__ QueryTiles query_tiles(const attention_params &p, int index, int heads, int key0) {
    return {index, heads, first_query(p, key0), key0};
}

__device__ __forceinline__ OtherTile next_queries(const attention_params &p, QueryTiles &walk) {
    while (walk.left > 0) {
        if (walk.query < p.len_q) {
            const int query = walk.query;
            walk.query += STEP_M;
            unsigned whole = 0;
#pragma unroll
            for (int part = 0; part < KEY_PARTS; part++)
                whole |= static_cast<unsigned>(all_pairs_seen(p, {}, query, STEP_M, walk.key0 + part * PART_KEYS, PART_KEYS)) << part;
            return {walk.index, query, whole};
        }
        walk.index++;
        walk.left--;
        walk.query = first_query(p, walk.key0);
    }
    return {0, -1, 0};
}

// Tiles of STEP_N keys for the queries of a block.
struct KeyTiles {
    int key, end;
};

__device__ __forceinline__ KeyTiles key_tiles(const attention_params &p, const Where &, int query0) {
    const int last = min(query0 + BLOCK_M, p.len_q) - 1;
    return {0, min(p.len_kv, keys_seen(p, last))};
}

// Returns the first key of the next tile; negative if there is none.
__device__ __forceinline__ int next_keys(const attention_params &, const Where &, KeyTiles &walk) {
    const int key = walk.key;
    walk.key = key + STEP_N;
    return key < walk.end ? key : -1;
}
