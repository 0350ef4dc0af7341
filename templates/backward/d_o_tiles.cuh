//$ needs d_o_stages most_d_o_tiles panels_v step_m

// The tiles of dO in shared memory. A launch that reads no V has more of them, in the place of V, which lies directly ahead.
template <bool READS_V> constexpr int D_O_TILES = READS_V ? D_O_STAGES : MOST_D_O_TILES;

template <bool READS_V> __device__ __forceinline__ Panels<PANELS_V, STEP_M> *d_o_tiles(SharedKeys &shared) {
    return shared.d_o - (D_O_TILES<READS_V> - D_O_STAGES);
}
