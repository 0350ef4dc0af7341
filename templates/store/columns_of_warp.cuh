//$ needs row_groups o_steps
//$ include "fragment/softmax_columns.cuh"
//$ include "store/columns.cuh"
//$ include "pipeline/merge_warps.cuh"

// Stores the result of a warp with a run of its own: O of the Q tile, or the run's part of it.
__device__ __forceinline__ void store_columns(Columns &columns, const attention_params &p, const Run &run, const Tile &tile,
                                              int worker) {
    const bool whole = run.first <= tile.first && tile.end <= run.end;
    Part *part = part_of(p, worker, run.first < tile.first);
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < ROW_GROUPS; n++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
            float sum = columns.sum[n][j];
#pragma unroll
            for (int lanes = 4; lanes < 32; lanes *= 2)
                sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
            const int line = 8 * n + lane % 4 * 2 + j;
            if (whole) {
                const Row at = row_of(p, tile, line);
                const float inverse = inverse_of(sum);
#pragma unroll
                for (int i = 0; i < 2 * O_STEPS; i++)
                    store_element(p, tile.batch, at, column_of(i), columns.o[n][i / 2][i % 2 * 2 + j] * inverse);
                if (lane < 4)
                    store_lse(p, tile.batch, at, columns.max[n][j], sum);
            } else {
#pragma unroll
                for (int i = 0; i < 2 * O_STEPS; i++)
                    part->o[line][column_of(i)] = columns.o[n][i / 2][i % 2 * 2 + j];
                if (lane < 4)
                    part->state[line] = make_float2(columns.max[n][j], sum);
            }
        }
}

// A warp with a run of its own stores its result. The warps of a block that share a run merge theirs.
__device__ __forceinline__ void store_or_merge(Shared &shared, Columns &columns, const attention_params &p, const Run &run,
                                               const Tile &tile, int worker) {
    if (run.warps == 1)
        store_columns(columns, p, run, tile, worker);
    else
        merge_warps(shared, columns, p, run, tile);
}
