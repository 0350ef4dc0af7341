//$ needs block_m head_dim_v batch_invariant dependent_launches
//$ include "target/sm_90.cuh"
//$ include "fragment/weight_of_score.cuh"
//$ include "store/columns.cuh"
//$ include "store/run_parts.cuh"

//$ if batch_invariant == 1
// Combines the parts of the Q tiles that have several chunks of keys, in their order: a launch behind the first one. A block has one
// row of a Q tile. Eight blocks on an SM allow 64 registers: not told so, ptxas takes 32 and spills.
//$ else
// Combines the parts of the Q tiles that several blocks worked on, always in the same order: a launch behind the first one. A
// block has one row of the Q tile in which the run of block `border` begins; the first border in a Q tile answers for it. Eight
// blocks on an SM allow 64 registers: not told so, ptxas takes 32 and spills.
//$ end
extern "C" __global__ void __launch_bounds__(128, 8) attention_combine_runs(const __grid_constant__ attention_params all) {
    //$ if dependent_launches == 1
    grid_dependency_wait();
    launch_dependents();
    //$ end
    const int row = blockIdx.x % BLOCK_M, lane = threadIdx.x % 32;
    const Plan plan = plan_of(all, gridDim.x / BLOCK_M);
    //$ if batch_invariant == 1
    const int first = static_cast<int>(blockIdx.x / BLOCK_M) * chunks_of(all); // the block that had its first chunk
    const Start start = start_of(all, plan, first);
    //$ else
    const int border = blockIdx.x / BLOCK_M;
    if (border == 0 || border >= plan.workers)
        return;
    const Start start = start_of(all, plan, border);
    //$ end
    const Tile &tile = start.tile;
    const attention_params &p = sequence_of(all, tile.batch);
    const Row at = row_of(p, tile, row);
    //$ if batch_invariant == 1
    const Parts parts = parts_of(plan, start, first);
    if (parts.count == 1 || at.query >= p.len_q)
        return;
    //$ else
    const Parts parts = parts_of(plan, start, border);
    if (start.run.first == tile.first || parts.first != border - 1 || at.query >= p.len_q)
        return;
    //$ end
    const float c = exponent_factor(p);

    float max = -INFINITY;
    for (int i = lane; i < parts.count; i += 32)
        max = fmaxf(max, part_of(p, parts.first + i, i == 0 && parts.begins_before)->state[row].x);
#pragma unroll
    for (int lanes = 1; lanes < 32; lanes *= 2)
        max = fmaxf(max, __shfl_xor_sync(0xffffffffu, max, lanes));

    constexpr int COLUMNS_OF_THREAD = (HEAD_DIM_V + 127) / 128;
    float o[COLUMNS_OF_THREAD] = {}, sum = 0;
    for (int i = 0; i < parts.count; i += 32) { // a lane knows the weight of one of 32 parts
        float weight = 0;
        if (i + lane < parts.count) {
            const float2 state = part_of(p, parts.first + i + lane, i + lane == 0 && parts.begins_before)->state[row];
            weight = weight_of(state.x, max, c);
            sum += state.y * weight;
        }
        const int count = min(32, parts.count - i);
#pragma unroll 8
        for (int k = 0; k < count; k++) {
            const Part *part = part_of(p, parts.first + i + k, i + k == 0 && parts.begins_before);
            const float of_part = __shfl_sync(0xffffffffu, weight, k);
#pragma unroll
            for (int j = 0; j < COLUMNS_OF_THREAD; j++) {
                const int column = 128 * j + static_cast<int>(threadIdx.x);
                if (column < HEAD_DIM_V)
                    o[j] = fmaf(of_part, part->o[row][column], o[j]);
            }
        }
    }
#pragma unroll
    for (int lanes = 1; lanes < 32; lanes *= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
#pragma unroll
    for (int j = 0; j < COLUMNS_OF_THREAD; j++)
        store_element(p, tile.batch, at, 128 * j + static_cast<int>(threadIdx.x), o[j] * inverse_of(sum));
    if (threadIdx.x == 0)
        store_lse(p, tile.batch, at, max, sum);
}
