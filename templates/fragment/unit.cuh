//$ needs mask score
//$ include "work/tile.cuh"

// The 64 rows of a Q tile that one warpgroup computes, in the accumulator layout of wgmma: thread t has rows
// 16 (t / 32) + t % 32 / 4 and 8 further down.
struct Unit {
    const attention_params &p;
    int index; // of this unit in the Q tile
    int lane;  // of this thread in its warp
    Tile tile;
    Where where; //$ if mask == custom_mask or score == custom_score

    // This thread's first row. It is needed once per Q tile, so no register keeps it.
    __device__ __forceinline__ int row() const { return opaque(threadIdx.x) / 32 % 4 * 16 + lane / 4; }
    __device__ __forceinline__ Row at(int row) const { return row_of(p, tile, index, row); }
    //$ if mask == custom_mask or score == custom_score
    __device__ __forceinline__ int position(int row) const { return position_of(p, min(at(row).query, p.len_q - 1)); }
    //$ end
};
