//$ needs block_m columns_v warps threads dependent_launches apart_q_tiles
//$ launch attention_combine_runs grid sm_count * (1 + min(1, (len_q * (heads / kv_heads) + block_m - 1) / block_m * kv_heads * batch / (apart_q_tiles * sm_count)) * (warps - 1)) * (block_m / warps) block threads shared 0 dependent params attention_params
//$ include "target/sm_90.cuh"
//$ include "fragment/weight_of_score.cuh"
//$ include "store/columns.cuh"

// The second launch. It combines the parts of the Q tiles that several workers had, always in the same order. A
// warp takes one row of the Q tile that worker `place` recorded, and a lane takes four columns of every 128.
constexpr int QUADS = (COLUMNS_V + 127) / 128, PARTS_AHEAD = QUADS < 4 ? 4 / QUADS : 1;

struct PartRows {
    float4 o[PARTS_AHEAD][QUADS];

    // Loads O of the parts from `index` on; zeros where there is no part.
    __device__ __forceinline__ void load(const attention_params &p, const Parts &parts, int index, int row) {
#pragma unroll
        for (int i = 0; i < PARTS_AHEAD; i++, index++)
#pragma unroll
            for (int quad = 0; quad < QUADS; quad++) {
                const int column = 128 * quad + static_cast<int>(threadIdx.x) % 32 * 4;
                o[i][quad] = make_float4(0, 0, 0, 0);
                if (index < parts.count && column < COLUMNS_V)
                    o[i][quad] = *reinterpret_cast<const float4 *>(
                        &part_of(p, parts.first + index, index == 0 && parts.begins_before)->o[row][column]);
            }
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, 512 / THREADS)
    attention_combine_runs(const __grid_constant__ attention_params all) {
    constexpr int BLOCKS = BLOCK_M / WARPS; // blocks per Q tile
    const int place = blockIdx.x / BLOCKS, row = blockIdx.x % BLOCKS * WARPS + warp_index(), lane = threadIdx.x % 32;
    //$ if dependent_launches == 1
    grid_dependency_wait();
    launch_dependents();
    //$ end
    const Border border = border_of(all, place);
    if (border.parts == 0)
        return;
    const Parts parts = {place - 1, border.parts / 2, border.parts % 2 != 0};
    PartRows ahead;
    ahead.load(all, parts, 0, row); // needs no weights
    const attention_params &p = sequence_of(all, border.batch);
    const Row at = row_of_group(p, border.kv_head, border.row + row);
    if (at.query >= p.len_q)
        return;
    const float c = exponent_factor(p);

    float max = -INFINITY;
#pragma unroll 1
    for (int i = lane; i < parts.count; i += 32)
        max = fmaxf(max, part_of(p, parts.first + i, i == 0 && parts.begins_before)->state[row].x);
#pragma unroll
    for (int lanes = 1; lanes < 32; lanes *= 2)
        max = fmaxf(max, __shfl_xor_sync(0xffffffffu, max, lanes));

    float4 o[QUADS] = {};
    float sum = 0, weight = 0; // each lane has the weight of one of 32 parts
#pragma unroll 1
    for (int i = 0; i < parts.count; i += PARTS_AHEAD) {
        if (i % 32 == 0) {
            weight = 0;
            if (i + lane < parts.count) {
                const float2 state = part_of(p, parts.first + i + lane, i + lane == 0 && parts.begins_before)->state[row];
                weight = weight_of(state.x, max, c);
                sum += state.y * weight;
            }
        }
        const PartRows now = ahead;
        ahead.load(p, parts, i + PARTS_AHEAD, row);
#pragma unroll
        for (int k = 0; k < PARTS_AHEAD; k++) {
            const float of_part = __shfl_sync(0xffffffffu, weight, i % 32 + k);
#pragma unroll
            for (int quad = 0; quad < QUADS; quad++) {
                float4 &x = o[quad];
                const float4 &more = now.o[k][quad];
                x = make_float4(fmaf(of_part, more.x, x.x), fmaf(of_part, more.y, x.y), fmaf(of_part, more.z, x.z),
                                fmaf(of_part, more.w, x.w));
            }
        }
    }
#pragma unroll
    for (int lanes = 1; lanes < 32; lanes *= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
    const float inverse = inverse_of(sum);
#pragma unroll
    for (int quad = 0; quad < QUADS; quad++) {
        const float of_column[4] = {o[quad].x, o[quad].y, o[quad].z, o[quad].w};
#pragma unroll
        for (int k = 0; k < 4; k++)
            store_element(p, border.batch, at, 128 * quad + 4 * lane + k, of_column[k] * inverse);
    }
    if (lane == 0)
        store_lse(p, border.batch, at, max, sum);
}
