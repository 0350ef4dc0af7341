//$ needs block_m block_n step_m step_n

// Masks that are expressions: each lane of a warp judges a tile of its own.

// The first query that may see a key from key0 on, rounded down to a tile.
__device__ __forceinline__ int first_query(const attention_params &, int) { return 0; }

__device__ __forceinline__ QueryTiles query_tiles(const attention_params &p, int index, int heads, int key0) {
    return {index, heads, first_query(p, key0), key0};
}

__device__ __forceinline__ OtherTile next_queries(const attention_params &p, QueryTiles &walk) {
    while (walk.left > 0) {
        const Where at = where_is(p, walk.index);
        while (walk.query < p.len_q) {
            const int mine = walk.query + static_cast<int>(threadIdx.x) % 32 * STEP_M;
            const bool needed = mine < p.len_q && some_pair_seen(p, at, mine, STEP_M, walk.key0, BLOCK_N);
            const unsigned tiles = __ballot_sync(0xffffffffu, needed);
            if (tiles != 0) {
                const int query = walk.query + (__ffs(static_cast<int>(tiles)) - 1) * STEP_M;
                walk.query = query + STEP_M;
                return {walk.index, query};
            }
            walk.query += 32 * STEP_M;
        }
        walk.index++;
        walk.left--;
        walk.query = first_query(p, walk.key0);
    }
    return {0, -1};
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

// Negative when there is no further tile.
__device__ __forceinline__ int next_keys(const attention_params &p, const Where &at, KeyTiles &walk) {
    const int key = next_needed<STEP_N>(p, at, walk.q_first, walk.q_last, walk.key, walk.end);
    walk.key = key + STEP_N;
    return key < walk.end ? key : -1;
}
