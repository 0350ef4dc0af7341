//$ needs thread_m thread_v

// O = 0, m = -inf, l = 0
__device__ __forceinline__ void begin_rows(const attention_params &, const QTile &, Place, Rows &rows) {
#pragma unroll
    for (int i = 0; i < THREAD_M; i++) {
        rows.m[i] = -INFINITY;
        rows.l[i] = 0;
#pragma unroll
        for (int c = 0; c < 4 * THREAD_V; c++)
            rows.o[i][c] = 0;
    }
}
