//$ include "work/tile.cuh"

// The 64 rows of a tile of queries that one warpgroup works on, as accumulators of wgmma hold them: thread t has rows
// 16 (t / 32) + t % 32 / 4 and 8 further down.
struct Unit {
    const attention_params &p;
    int index; // of the tile's units
    int lane;  // of this thread
    Tile tile;
    //$ if mask == custom_mask or score == custom_score
    Where where;
    //$ end

    // This thread's first row. Needed once a tile of queries, so not kept.
    __device__ __forceinline__ int row() const { return set_apart(threadIdx.x) / 32 % 4 * 16 + lane / 4; }
    __device__ __forceinline__ Row at(int row) const { return row_of(p, tile, index, row); }
    //$ if mask == custom_mask or score == custom_score
    __device__ __forceinline__ int position(int row) const { return position_of(p, min(at(row).query, p.len_q - 1)); }
    //$ end
};
