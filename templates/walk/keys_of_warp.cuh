//$ needs block_n warps mask apart
//$ include "work/run.cuh"

//$ if apart
// The K/V tiles of a warp for a Q tile: all of them in a run of its own, or every WARPS-th of those of its block.
//$ else
// The K/V tiles of a warp for a Q tile: every WARPS-th of those of its block.
//$ end
struct KeyWalk {
    int tile, end;            // tiles of the sequence: the next one; one past the last one
    int full_first, full_end; // keys that all rows see
};

__device__ __forceinline__ int warps_of(const Run &run) { return run.warps; } //$ if apart
__device__ __forceinline__ int warps_of(const Run &) { return WARPS; }        //$ else

__device__ __forceinline__ KeyWalk walk_of_warp(const attention_params &p, const Run &run, const Tile &tile) {
    const Keys keys = keys_of_tile(p, tile);
    const int first = keys.first / BLOCK_N, count = max(0, (keys.end + BLOCK_N - 1) / BLOCK_N - first);
    int begin = max(run.first - tile.first, 0), end = min(run.end, tile.end) - tile.first;
    const int warp = warp_index() - begin - tile.first;
    //$ if mask == custom_mask
    const int tiles = tile.end - tile.first;
    if (count != tiles) { // take the same share of the needed tiles
        begin = static_cast<int>(static_cast<long long>(begin) * count / tiles);
        end = static_cast<int>(static_cast<long long>(end) * count / tiles);
    }
    //$ end
    return {first + begin + (warp & warps_of(run) - 1), first + min(end, count), keys.full_first, keys.full_end};
}

// True if some row does not see some key of the tile.
__device__ __forceinline__ bool is_masked(const KeyWalk &walk) {
    //$ if mask == custom_mask
    return walk.tile * BLOCK_N < walk.full_first || (walk.tile + 1) * BLOCK_N > walk.full_end;
    //$ else
    return (walk.tile + 1) * BLOCK_N > walk.full_end;
    //$ end
}
