//$ needs mask block_m step_m step_n part_keys most_shares items_in_parts queries_descend

// Built-in masks.

// The first query that may see a key from key0 on, rounded down to a tile.
__device__ __forceinline__ int first_query(const attention_params &p, int key0) {
    return max(0, key0 - p.len_kv + p.len_q) / STEP_M * STEP_M; //$ if mask == causal
    return 0;                                                   //$ else
}

//$ if items_in_parts
// Returns the number of tiles of a head that may see them.
__device__ __forceinline__ int steps_of_head(const attention_params &p, int key0) {
    return (p.len_q - first_query(p, key0) + STEP_M - 1) / STEP_M;
}

//$ end
// Returns which parts of the keys from key0 on are seen by every query of a tile.
__device__ __forceinline__ unsigned parts_seen_whole(const attention_params &p, int query, int key0) {
    unsigned whole = 0;
#pragma unroll
    for (int part = 0; part < KEY_PARTS; part++)
        whole |= static_cast<unsigned>(all_pairs_seen(p, {}, query, STEP_M, key0 + part * PART_KEYS, PART_KEYS)) << part;
    return whole;
}

//$ if queries_descend
// Tiles of STEP_M queries of `heads` heads from `index` on, which share the keys from key0 on. The last queries come first, those of all
// heads. So blocks that begin together, at different keys, visit the same queries at the same time, however many tiles are left to each.
struct QueryTiles {
    int index, heads, query, key0;
    int head; // of the next tile
    int steps; // most tiles that are left //$ if most_shares > 0
};

__device__ __forceinline__ QueryTiles query_tiles(const attention_params &p, int index, int heads, int key0) {
    const int query = (p.len_q + STEP_M - 1) / STEP_M * STEP_M - STEP_M;
    return {index, heads, query, key0, 0, 0x7fffffff}; //$ if most_shares > 0
    return {index, heads, query, key0, 0};             //$ else
}
//$ if most_shares > 0

// Leaves `steps` of these tiles, from number first_step on.
__device__ __forceinline__ void limit_to_steps(QueryTiles &walk, const attention_params &, int first_step, int steps) {
    walk.query -= first_step / walk.heads * STEP_M;
    walk.head = first_step % walk.heads;
    walk.steps = steps;
}
//$ end

// True if next_queries() has another tile.
__device__ __forceinline__ bool has_queries(const attention_params &p, const QueryTiles &walk) {
    return walk.query >= first_query(p, walk.key0) && walk.steps > 0; //$ if most_shares > 0
    return walk.query >= first_query(p, walk.key0);                   //$ else
}

__device__ __forceinline__ OtherTile next_queries(const attention_params &p, QueryTiles &walk) {
    if (!has_queries(p, walk))
        return {0, -1, 0};
    walk.steps--; //$ if most_shares > 0
    const int index = walk.index + walk.head, query = walk.query;
    if (++walk.head == walk.heads) {
        walk.head = 0;
        walk.query -= STEP_M;
    }
    return {index, query, parts_seen_whole(p, query, walk.key0)};
}
//$ else
// Tiles of STEP_M queries of `left` heads from `index` on, which share the keys from key0 on.
struct QueryTiles {
    int index, left, query, key0;
    int steps; // most tiles that are left //$ if most_shares > 0
};

__device__ __forceinline__ QueryTiles query_tiles(const attention_params &p, int index, int heads, int key0) {
    return {index, heads, first_query(p, key0), key0, 0x7fffffff}; //$ if most_shares > 0
    return {index, heads, first_query(p, key0), key0};             //$ else
}
//$ if most_shares > 0

// Leaves `steps` of these tiles, from number first_step on.
__device__ __forceinline__ void limit_to_steps(QueryTiles &walk, const attention_params &p, int first_step, int steps) {
    const int of_head = steps_of_head(p, walk.key0);
    walk.index += first_step / of_head;
    walk.query += first_step % of_head * STEP_M;
    walk.steps = steps;
}
//$ end

// True if next_queries() has another tile, once it has returned one.
__device__ __forceinline__ bool has_queries(const attention_params &p, const QueryTiles &walk) {
    return (walk.query < p.len_q || walk.left > 1) && walk.steps > 0; //$ if most_shares > 0
    return walk.query < p.len_q || walk.left > 1;                     //$ else
}

__device__ __forceinline__ OtherTile next_queries(const attention_params &p, QueryTiles &walk) {
    while (walk.left > 0) {
        if (walk.query < p.len_q) {
            if (walk.steps-- == 0) break; //$ if most_shares > 0
            const int query = walk.query;
            walk.query += STEP_M;
            return {walk.index, query, parts_seen_whole(p, query, walk.key0)};
        }
        walk.index++;
        walk.left--;
        walk.query = first_query(p, walk.key0);
    }
    return {0, -1, 0};
}
//$ end

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
