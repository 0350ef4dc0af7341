//$ needs dropout head_dim_v lanes_m lanes_n thread_m thread_v
//$ include "store/chunk.cuh"

// Stores O = O / l and LSE = m + ln l of a thread's rows. `chunks`: rows of O consist of aligned chunks.
__device__ __forceinline__ void store_rows(const attention_params &p, const Head &head, int row0, Place at, const Rows &rows,
                                           bool chunks) {
#pragma unroll
    for (int i = 0; i < THREAD_M; i++) {
        const long long row = row0 + at.row + LANES_M * i;
        const float sum = row_sum(rows.l[i]), inverse = sum == 0 ? 0 : p.dropout_factor / sum; // without a key O = 0 //$ if dropout == 1
        const float sum = row_sum(rows.l[i]), inverse = sum == 0 ? 0 : 1 / sum; // without a key O = 0                //$ else
        if (row >= p.len_q)
            continue;
#pragma unroll
        for (int c = 0; c < THREAD_V; c++) {
            const int column = 4 * (at.lane + LANES_N * c);
            store_chunk(head.o + row * p.o_row_stride + column,
                        make_float4(rows.o[i][4 * c] * inverse, rows.o[i][4 * c + 1] * inverse, rows.o[i][4 * c + 2] * inverse,
                                    rows.o[i][4 * c + 3] * inverse),
                        HEAD_DIM_V - column, chunks);
        }
        if (head.lse && at.lane == 0)
            head.lse[row] = rows.m[i] + logf(sum);
    }
}
