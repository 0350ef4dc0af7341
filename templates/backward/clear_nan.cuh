//$ needs marks_d_o
//$ include "fragment/nan.cuh"

// NaN in rows of K, Q or dO whose pairs are not all seen. P and dS of an unseen pair are 0, but their products with a NaN are NaN, and a row of
// a gradient that sees nothing of the NaN would have to be summed again. So a warp sets such a NaN to 0 in shared memory. A pair that is seen
// stays NaN: so is the LSE or D of its query. An infinity has to stay, since it may make a weight 0.
//$ if marks_d_o
//
// In dV a NaN in dO reaches single columns, which restore_nan() stores in the end.
//$ end

// Sets every NaN in a tile, or rows of it, to 0. Called by a warp.
__device__ __forceinline__ void clear_nan(unsigned short *tile, int bytes) {
    uint4 *const chunks = reinterpret_cast<uint4 *>(tile);
#pragma unroll 1
    for (int i = opaque(static_cast<int>(threadIdx.x) % 32); i < bytes / 16; i += 32) {
        const uint4 chunk = chunks[i];
        chunks[i] = make_uint4(without_nan(chunk.x), without_nan(chunk.y), without_nan(chunk.z), without_nan(chunk.w));
    }
    fence_async(); // before products read these rows
}
