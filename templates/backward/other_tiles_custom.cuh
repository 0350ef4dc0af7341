//$ needs layout items_in_parts block_m block_n step_m step_n part_keys

// Masks that are expressions: each lane of a warp tests a tile of its own.

// The first query that may see a key from key0 on, rounded down to a tile.
__device__ __forceinline__ int first_query(const attention_params &, int) { return 0; }

//$ if items_in_parts
//$ if layout == dense
// Returns about how many tiles of the first head see keys of a tile, of which the first is key0: 32 of them are tested. All lanes of a warp
// call this together.
__device__ __forceinline__ int steps_of_head(const attention_params &p, int key0) {
    const int tiles = (p.len_q + STEP_M - 1) / STEP_M, apart = (tiles + 31) / 32;
    const int query = static_cast<int>(threadIdx.x) % 32 * apart * STEP_M;
    const bool needed = query < p.len_q && some_pair_seen(p, where_is(p, 0), query, STEP_M, key0, BLOCK_N);
    return apart * __popc(__ballot_sync(0xffffffffu, needed));
}
//$ else
// Returns the number of tiles of a head that may see them.
__device__ __forceinline__ int steps_of_head(const attention_params &p, int) { return (p.len_q + STEP_M - 1) / STEP_M; }
//$ end

//$ end
// Tiles of STEP_M queries of `left` heads from `index` on, which share the keys from key0 on.
struct QueryTiles {
    int index, left, query, key0;
    // One bit for each of 32 tiles from `query` on: tiles that are still to come; tiles whose queries see every key of a part.
    unsigned needed, whole[KEY_PARTS];
};

__device__ __forceinline__ QueryTiles query_tiles(const attention_params &p, int index, int heads, int key0) {
    return {index, heads, first_query(p, key0) - 32 * STEP_M, key0, 0, {}};
}

// Finds the next 32 tiles of which some are needed; false if there are none. Called when no tiles are left of those before.
__device__ __forceinline__ bool find_queries(const attention_params &p, QueryTiles &walk) {
    while (walk.needed == 0) {
        walk.query += 32 * STEP_M;
        if (walk.query >= p.len_q) {
            walk.index++;
            walk.left--;
            walk.query = first_query(p, walk.key0);
        }
        if (walk.left <= 0 || p.len_q == 0)
            return false;
        const Where at = where_is(p, walk.index);
        const int mine = walk.query + static_cast<int>(threadIdx.x) % 32 * STEP_M;
        const bool needed = mine < p.len_q && some_pair_seen(p, at, mine, STEP_M, walk.key0, BLOCK_N);
        walk.needed = __ballot_sync(0xffffffffu, needed);
#pragma unroll
        for (int part = 0; part < KEY_PARTS; part++)
            walk.whole[part] = __ballot_sync(
                0xffffffffu, needed && all_pairs_seen(p, at, mine, STEP_M, walk.key0 + part * PART_KEYS, PART_KEYS));
    }
    return true;
}

// Takes the next of the needed tiles.
__device__ __forceinline__ OtherTile take_queries(QueryTiles &walk) {
    const int tile = __ffs(static_cast<int>(walk.needed)) - 1;
    walk.needed &= walk.needed - 1;
    unsigned whole = 0;
#pragma unroll
    for (int part = 0; part < KEY_PARTS; part++)
        whole |= (walk.whole[part] >> tile & 1) << part;
    return {walk.index, walk.query + tile * STEP_M, whole};
}

__device__ __forceinline__ OtherTile next_queries(const attention_params &p, QueryTiles &walk) {
    if (!find_queries(p, walk))
        return {0, -1, 0};
    return take_queries(walk);
}

// Tiles of STEP_N keys for the queries of a block.
struct KeyTiles {
    int key, end;
    int q_first, q_last; // positions of the queries
};

__device__ __forceinline__ KeyTiles key_tiles(const attention_params &p, const Where &at, int query0) {
    const int last = min(query0 + BLOCK_M, p.len_q) - 1;
    const int q_first = position_of(p, query0), q_last = position_of(p, last);
    const Keys keys = keys_of(p, at, q_first, q_last);
    return {keys.first / STEP_N * STEP_N, keys.end, q_first, q_last};
}

// Returns the first key of the next tile; negative if there is none.
__device__ __forceinline__ int next_keys(const attention_params &p, const Where &at, KeyTiles &walk) {
    const int key = next_needed<STEP_N>(p, at, walk.q_first, walk.q_last, walk.key, walk.end);
    walk.key = key + STEP_N;
    return key < walk.end ? key : -1;
}
