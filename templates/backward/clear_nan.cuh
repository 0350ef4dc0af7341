//$ needs bfloat16
// NaN in rows of K or Q whose pairs are not all seen. dS of an unseen pair is 0, but its product with a NaN is NaN, and a row of dQ or dK that
// sees nothing of the NaN would have to be summed again. A NaN makes all scores of its row NaN, so a warp that meets such scores in a step
// with unseen pairs sets every NaN of these rows to 0. A pair that is seen stays NaN: so is the LSE of its query. An infinity has to stay,
// since it may make a weight 0. Other warpgroups may read these rows meanwhile, in products of pairs that see the NaN or of which no result is
// used: either value is right.

// Returns the pair of elements with 0 in place of NaN.
__device__ __forceinline__ unsigned without_nan(unsigned pair) {
    const unsigned signs = ((pair & 0x7fff7fff) + 0x007f007f) & 0x80008000; // carries into the sign bit only from NaN //$ if bfloat16
    const unsigned signs = ((pair & 0x7fff7fff) + 0x03ff03ff) & 0x80008000; // carries into the sign bit only from NaN //$ else
    return pair & ~((signs >> 15) * 0xffff);
}

// Sets every NaN in ROWS rows of a tile, from row0 on, to 0. Called by a warp, if one of its threads has a `score` that is NaN.
template <int ROWS, int PANELS_OF, int HEIGHT>
__device__ __forceinline__ void clear_nan(unsigned short (&tile)[PANELS_OF][HEIGHT][64], int row0, float score) {
    if (!__any_sync(0xffffffffu, score != score))
        return;
    const int lane = opaque(static_cast<int>(threadIdx.x) % 32);
#pragma unroll 1
    for (int panel = 0; panel < PANELS_OF; panel++) {
        uint4 *const chunks = reinterpret_cast<uint4 *>(tile[panel][row0]);
#pragma unroll 1
        for (int i = lane; i < ROWS * 8; i += 32) {
            const uint4 chunk = chunks[i];
            chunks[i] = make_uint4(without_nan(chunk.x), without_nan(chunk.y), without_nan(chunk.z), without_nan(chunk.w));
        }
    }
    fence_async(); // before products read these rows
}
