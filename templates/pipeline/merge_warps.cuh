//$ needs columns_v row_groups o_steps warps threads
//$ include "fragment/softmax_columns.cuh"
//$ include "store/columns.cuh"

// Merges what the warps hold of a Q tile into O, or the block's part of it: O and l of each warp, relative to the largest m, added up.
__device__ __forceinline__ void merge_warps(Shared &shared, Columns &columns, const attention_params &p, const Run &run,
                                            const Tile &tile) {
    const bool whole = run.first <= tile.first && tile.end <= run.end;
    Part *part = part_of(p, blockIdx.x, run.first < tile.first);
    const int lane = threadIdx.x % 32, warp = warp_index(), pair = lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < ROW_GROUPS; n++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
#pragma unroll
            for (int lanes = 4; lanes < 32; lanes *= 2)
                columns.sum[n][j] += __shfl_xor_sync(0xffffffffu, columns.sum[n][j], lanes);
            if (lane < 4)
                shared.max[warp][8 * n + pair + j] = columns.max[n][j];
        }
#pragma unroll
    for (int n = 0; n < ROW_GROUPS; n++) {
        __syncthreads(); // the maxima are in shared memory, and O of the previous group has been read
        float keep[2];
#pragma unroll
        for (int j = 0; j < 2; j++) {
            float max = shared.max[0][8 * n + pair + j];
#pragma unroll
            for (int i = 1; i < WARPS; i++)
                max = fmaxf(max, shared.max[i][8 * n + pair + j]);
            keep[j] = weight_of(columns.max[n][j], max, columns.c);
            if (lane < 4)
                shared.sum[warp][8 * n + pair + j] = columns.sum[n][j] * keep[j];
        }
#pragma unroll
        for (int i = 0; i < 2 * O_STEPS; i++) {
            const float(&o)[4] = columns.o[n][i / 2];
            *reinterpret_cast<float2 *>(&shared.o[warp][column_of(i)][pair]) =
                make_float2(o[i % 2 * 2] * keep[0], o[i % 2 * 2 + 1] * keep[1]);
        }
        __syncthreads();
#pragma unroll
        for (int item = threadIdx.x; item < 2 * COLUMNS_V; item += THREADS) { // a column of four rows
            const int column = item / 2, row = item % 2 * 4;
            float4 o = make_float4(0, 0, 0, 0), sum = o;
#pragma unroll
            for (int i = 0; i < WARPS; i++) {
                const float4 more = *reinterpret_cast<const float4 *>(&shared.o[i][column][row]);
                const float4 share = *reinterpret_cast<const float4 *>(&shared.sum[i][8 * n + row]);
                o = make_float4(o.x + more.x, o.y + more.y, o.z + more.z, o.w + more.w);
                sum = make_float4(sum.x + share.x, sum.y + share.y, sum.z + share.z, sum.w + share.w);
            }
            const float of_row[4] = {o.x, o.y, o.z, o.w}, sums[4] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
            for (int r = 0; r < 4; r++) {
                const int line = 8 * n + row + r;
                if (whole)
                    store_element(p, tile.batch, row_of(p, tile, line), column, of_row[r] * inverse_of(sums[r]));
                else
                    part->o[line][column] = of_row[r];
                if (column == 0) {
                    float max = shared.max[0][line];
#pragma unroll
                    for (int i = 1; i < WARPS; i++)
                        max = fmaxf(max, shared.max[i][line]);
                    if (whole)
                        store_lse(p, tile.batch, row_of(p, tile, line), max, sums[r]);
                    else
                        part->state[line] = make_float2(max, sums[r]);
                }
            }
        }
    }
    __syncthreads(); // all of it has been read
}
