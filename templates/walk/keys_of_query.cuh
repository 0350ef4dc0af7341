//$ needs block_n
//$ include "walk/keys_seen.cuh"
//$ include "work/run.cuh"

// The K/V tiles that a block processes for a Q tile whose rows belong to one query.
struct KeyWalk {
    int tile, end; // tiles of the sequence: the first one; one past the last one, `tile` or less if there is none
    int keys;      // number of keys that the query sees
};

__device__ __forceinline__ KeyWalk walk_of_block(const attention_params &p, const Run &run, const Tile &tile) {
    const int keys = keys_seen(p, first_query(p, tile));
    const int end = min(min(run.end, tile.end) - tile.first, (keys + BLOCK_N - 1) / BLOCK_N);
    return {max(run.first - tile.first, 0), end, keys};
}
