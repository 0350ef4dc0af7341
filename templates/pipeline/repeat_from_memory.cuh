//$ needs row_tiles block_n chunks
//$ include "fragment/scores_from_memory_16bit.cuh"

// Recomputes S of these keys from K in global memory: the next K tile is already being copied to shared memory.
template <int FIRST, int KEYS>
__device__ __forceinline__ void repeat_scores(UnitRows (&units)[ROW_TILES], const Queries &, const Rows16<BLOCK_N, CHUNKS> &) {
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++)
        scores_from_memory<KEYS>(reinterpret_cast<float(&)[KEYS / 2]>(units[r].s[FIRST / 2]), units[r].unit,
                                 units[r].next * BLOCK_N + FIRST);
}
