//$ needs row_tiles block_n chunks

// Recomputes S of these keys from K in shared memory.
template <int FIRST, int KEYS>
__device__ __forceinline__ void repeat_scores(UnitRows (&units)[ROW_TILES], const Queries &q, const Rows16<BLOCK_N, CHUNKS> &k) {
    multiply_scores<FIRST, KEYS>(units, q, k, thread_of_round());
}
