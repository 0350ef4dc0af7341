//$ include "backward/clear_nan.cuh"

// Sets every NaN in ROWS rows of a tile, from row0 on, to 0, if one of the warp's threads has a `score` that is NaN, or any other number that
// tells of it. Other warpgroups may read these rows meanwhile, in products of pairs that see the NaN or of which no result is used: either
// value is right.
template <int ROWS, int PANELS_OF, int HEIGHT>
__device__ __forceinline__ void clear_scored(unsigned short (&tile)[PANELS_OF][HEIGHT][64], int row0, float score) {
    if (!__any_sync(0xffffffffu, score != score))
        return;
#pragma unroll 1
    for (int panel = 0; panel < PANELS_OF; panel++)
        clear_nan(tile[panel][row0], ROWS * 128);
}
