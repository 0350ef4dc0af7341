//$ needs clears_d_o
//$ include "fragment/nan.cuh"

// NaN in rows of K or Q whose pairs are not all seen. dS of an unseen pair is 0, but its product with a NaN is NaN, and a row of dQ or dK that
// sees nothing of the NaN would have to be summed again. A NaN makes all scores of its row NaN, so a warp that meets such scores in a step
// with unseen pairs sets every NaN of these rows to 0. A pair that is seen stays NaN: so is the LSE of its query. An infinity has to stay,
// since it may make a weight 0. Other warpgroups may read these rows meanwhile, in products of pairs that see the NaN or of which no result is
// used: either value is right.
//$ if clears_d_o
//
// A NaN in dO makes D of its query NaN, and with it dQ of the query, and dK of the keys that it sees. But in dV it reaches a single column,
// whose NaN restore_nan() stores after the other keys have been spared theirs.
//$ end

// Sets every NaN in the next bytes of a tile to 0. Called by a warp.
__device__ __forceinline__ void clear_nan(unsigned short *tile, int bytes) {
    uint4 *const chunks = reinterpret_cast<uint4 *>(tile);
#pragma unroll 1
    for (int i = opaque(static_cast<int>(threadIdx.x) % 32); i < bytes / 16; i += 32) {
        const uint4 chunk = chunks[i];
        chunks[i] = make_uint4(without_nan(chunk.x), without_nan(chunk.y), without_nan(chunk.z), without_nan(chunk.w));
    }
    fence_async(); // before products read these rows
}

// The same for ROWS rows of a tile, from row0 on, if one of the warp's threads has a `score` that is NaN.
template <int ROWS, int PANELS_OF, int HEIGHT>
__device__ __forceinline__ void clear_nan(unsigned short (&tile)[PANELS_OF][HEIGHT][64], int row0, float score) {
    if (!__any_sync(0xffffffffu, score != score))
        return;
#pragma unroll 1
    for (int panel = 0; panel < PANELS_OF; panel++)
        clear_nan(tile[panel][row0], ROWS * 128);
}
