//$ needs thread_m thread_v

// A sink has a weight but no value.
__device__ __forceinline__ void begin_rows(const attention_params &p, const QTile &q_tile, Place at, Rows &rows) {
    const float sink = tensor_sinks(p, q_tile.where.h);
#pragma unroll
    for (int i = 0; i < THREAD_M; i++) {
        rows.m[i] = sink;
        rows.l[i] = at.lane == 0 ? 1 : 0;
#pragma unroll
        for (int c = 0; c < 4 * THREAD_V; c++)
            rows.o[i][c] = 0;
    }
}
