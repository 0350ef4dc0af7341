//$ needs mask lanes_m lanes_n thread_m thread_n thread_v

// No mask, or one under which a row sees only the first keys.
struct Seen {
    bool masked; // some row does not see some key of the tile
};

// s = -INFINITY for keys that a row does not see.
__device__ __forceinline__ void mask_scores(const attention_params &p, const QTile &q_tile, const KeyRange &keys, int key0,
                                            Place at, float (&s)[THREAD_M][THREAD_N], Seen &seen) {
    seen.masked = is_masked(p, q_tile, keys, key0);
    if (seen.masked) {
#pragma unroll
        for (int i = 0; i < THREAD_M; i++)
#pragma unroll
            for (int j = 0; j < THREAD_N; j++)
                if (key0 + at.lane + LANES_N * j >= keys_seen(p, q_tile.row0 + at.row + LANES_M * i))
                    s[i][j] = -INFINITY;
    }
}

//$ if mask == causal
// O += P V for the keys that a row sees, regardless of V of the others. left: number of keys from the first one of the tile on.
__device__ __forceinline__ void add_output(const attention_params &p, const QTile &q_tile, int left, Shared &tile,
                                           Place at, const float (&s)[THREAD_M][THREAD_N], const Seen &seen,
                                           float (&o)[THREAD_M][4 * THREAD_V]) {
    const int hidden = q_tile.row0 + at.row - p.len_q + left + 1; // from here + LANES_M * i on, row i does not see keys
    if (seen.masked)
        multiply_output(tile, at, s, [&](int column, const float4 (&weight)[THREAD_M], int e, float v, int key) {
            add_column<LANES_M>(o, column, weight, e, v, key - hidden);
        });
    else
        multiply_output(tile, at, s, o);
}
//$ else
// O += P V. Past the last key, V is 0 in shared memory.
__device__ __forceinline__ void add_output(const attention_params &, const QTile &, int, Shared &tile, Place at,
                                           const float (&s)[THREAD_M][THREAD_N], const Seen &,
                                           float (&o)[THREAD_M][4 * THREAD_V]) {
    multiply_output(tile, at, s, o);
}
//$ end
