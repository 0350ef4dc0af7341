//$ needs lanes_m lanes_n thread_m thread_n thread_v

// A mask that is an expression.
struct Seen {
    bool masked;            // some row does not see some key of the tile
    unsigned key[THREAD_M]; // where masked, bit j of key[i]: row i of the thread sees its key j
};

// s = -INFINITY for keys that a row does not see.
__device__ __forceinline__ void mask_scores(const attention_params &p, const QTile &q_tile, const KeyRange &keys, int key0,
                                            Place at, float (&s)[THREAD_M][THREAD_N], Seen &seen) {
    seen = {is_masked(p, q_tile, keys, key0), {}};
    if (seen.masked) {
#pragma unroll
        for (int i = 0; i < THREAD_M; i++)
#pragma unroll
            for (int j = 0; j < THREAD_N; j++) {
                const int key = key0 + at.lane + LANES_N * j;
                if (key < keys.end && sees(p, q_tile.where, min(q_tile.q_first + at.row + LANES_M * i, q_tile.q_last), key))
                    seen.key[i] |= 1u << j;
                else
                    s[i][j] = -INFINITY;
            }
    }
}

// sum[i][column] += a[i][e] * b, but only for rows whose a is not below 0; NaN is not.
template <int ROWS, int COLUMNS>
__device__ __forceinline__ void add_seen(float (&sum)[ROWS][COLUMNS], int column, const float4 (&a)[ROWS], int e, float b) {
#pragma unroll
    for (int i = 0; i < ROWS; i++)
        if (!(element(a[i], e) < 0))
            sum[i][column] = fmaf(element(a[i], e), b, sum[i][column]);
}

// O += P V for the keys that a row sees, regardless of V of the others, whose P is -1.
__device__ __forceinline__ void add_output(const attention_params &, const QTile &, int, Shared &tile, Place at,
                                           float (&s)[THREAD_M][THREAD_N], const Seen &seen, float (&o)[THREAD_M][4 * THREAD_V]) {
    if (seen.masked) {
#pragma unroll
        for (int i = 0; i < THREAD_M; i++)
#pragma unroll
            for (int j = 0; j < THREAD_N; j++)
                s[i][j] = seen.key[i] >> j & 1 ? s[i][j] : -1;
        multiply_output(tile, at, s, [&](int column, const float4 (&weight)[THREAD_M], int e, float v, int) {
            add_seen(o, column, weight, e, v);
        });
    } else {
        multiply_output(tile, at, s, o);
    }
}
