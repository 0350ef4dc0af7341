//$ needs block_m columns_v layout dependent_launches combine_threads combine_shares combine_goes_around combine_bytes
//$ include "target/sm_90.cuh"
//$ include "fragment/weight_of_score.cuh"
//$ include "store/columns.cuh"

// The second launch. It combines the parts of the Q tiles that several blocks worked on, always in the same order.
// A block has a share of the columns of a Q tile. For four columns of a row, a thread adds up some of the parts,
// which it loads before it knows their weights. Then the lanes of a warp add their sums, and then the warps.
struct SharedSums {
    float4 o[COMBINE_THREADS];
    float2 state[COMBINE_THREADS]; // m and l
};
static_assert(sizeof(SharedSums) == COMBINE_BYTES, "as in the launch directive");

__device__ __forceinline__ void add_weighted(float4 &sum, float weight, const float4 &x) {
    sum = make_float4(fmaf(weight, x.x, sum.x), fmaf(weight, x.y, sum.y), fmaf(weight, x.z, sum.z), fmaf(weight, x.w, sum.w));
}

constexpr int ROW_FOURS = COLUMNS_V / 4, FOURS = BLOCK_M * ROW_FOURS; // groups of four columns in a row, and in a Q tile

// Combines `fours` groups of four columns from `first` on. `adders` threads add up each group.
__device__ __forceinline__ void combine_fours(const attention_params &all, const Tile &tile, const Parts &parts, int first, int fours,
                                              int adders) {
    constexpr int WARPS_HERE = COMBINE_THREADS / 32;
    SharedSums &shared = *dynamic_shared<SharedSums>();
    const int own = min(first + static_cast<int>(threadIdx.x) % fours, FOURS - 1);
    const int row = own / ROW_FOURS, column = own % ROW_FOURS * 4;
    const attention_params &p = sequence_of(all, tile.batch);
    const float c = exponent_factor(p);

    float4 o = make_float4(0, 0, 0, 0);
    float max = -INFINITY, sum = 0;
#pragma unroll 1
    for (int part = static_cast<int>(threadIdx.x) / fours; part < parts.count; part += 2 * adders) {
        const Part *from = part_of(p, parts.first + part, part == 0 && parts.begins_before);
        const float2 state = from->state[row];
        const float4 x = *reinterpret_cast<const float4 *>(&from->o[row][column]);
        float2 other_state = make_float2(-INFINITY, 0);
        float4 other = make_float4(0, 0, 0, 0);
        if (part + adders < parts.count) {
            const Part *following = part_of(p, parts.first + part + adders, false);
            other_state = following->state[row];
            other = *reinterpret_cast<const float4 *>(&following->o[row][column]);
        }
        const float top = fmaxf(max, fmaxf(state.x, other_state.x));
        const float keep = weight_of(max, top, c), weight = weight_of(state.x, top, c), other_weight = weight_of(other_state.x, top, c);
        max = top;
        sum = fmaf(other_weight, other_state.y, fmaf(weight, state.y, keep * sum));
        o = make_float4(keep * o.x, keep * o.y, keep * o.z, keep * o.w);
        add_weighted(o, weight, x);
        add_weighted(o, other_weight, other);
    }

    // If the share is small, several threads of a warp have the same columns.
    float top = max;
#pragma unroll 1
    for (int lanes = fours; lanes < 32; lanes *= 2)
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, lanes));
    const float keep = weight_of(max, top, c);
    sum *= keep;
    o = make_float4(keep * o.x, keep * o.y, keep * o.z, keep * o.w);
#pragma unroll 1
    for (int lanes = fours; lanes < 32; lanes *= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
        o.x += __shfl_xor_sync(0xffffffffu, o.x, lanes), o.y += __shfl_xor_sync(0xffffffffu, o.y, lanes);
        o.z += __shfl_xor_sync(0xffffffffu, o.z, lanes), o.w += __shfl_xor_sync(0xffffffffu, o.w, lanes);
    }
    const int of_warp = min(fours, 32), lane = threadIdx.x % 32;
    if (lane < of_warp) {
        const int slot = static_cast<int>(threadIdx.x) / 32 * of_warp + lane; // slots of the same columns are `fours` apart
        shared.o[slot] = o;
        shared.state[slot] = make_float2(top, sum);
    }
    __syncthreads();
    if (threadIdx.x >= fours || first + static_cast<int>(threadIdx.x) >= FOURS)
        return;
    const int slots = WARPS_HERE * of_warp;
    max = -INFINITY, sum = 0;
    o = make_float4(0, 0, 0, 0);
    for (int slot = threadIdx.x; slot < slots; slot += fours)
        max = fmaxf(max, shared.state[slot].x);
    for (int slot = threadIdx.x; slot < slots; slot += fours) {
        const float2 state = shared.state[slot];
        const float weight = weight_of(state.x, max, c);
        sum = fmaf(weight, state.y, sum);
        add_weighted(o, weight, shared.o[slot]);
    }
    const Row at = row_of(p, tile, row);
    const float inverse = inverse_of(sum);
    store_element(p, tile.batch, at, column, o.x * inverse);
    store_element(p, tile.batch, at, column + 1, o.y * inverse);
    store_element(p, tile.batch, at, column + 2, o.z * inverse);
    store_element(p, tile.batch, at, column + 3, o.w * inverse);
    if (column == 0)
        store_lse(p, tile.batch, at, max, sum);
}

extern "C" __global__ void __launch_bounds__(COMBINE_THREADS, 4)
    attention_combine_runs(const __grid_constant__ attention_params all) {
    //$ if dependent_launches == 1 and layout != dense
    grid_dependency_wait(); // lengths are in memory
    launch_dependents();
    //$ end
    const Plan plan = plan_of_shares(all);
    const int worker = worker_of_share(all);
    //$ if layout != dense
    if (!has_run(plan, worker))
        return;
    //$ end
    const Start start = start_of(all, plan, worker);
    const Parts parts = parts_of(plan, start, worker);
    const int place = place_of_share(all, parts, worker);
    const bool begins = begins_here(plan, start, worker, place);

    // The number of groups of four columns per block, a power of two.
    const int blocks = (parts.count - 1) * COMBINE_SHARES;
    int fours = 2, adders = COMBINE_THREADS / 2;
    while (fours * blocks < FOURS && fours < COMBINE_THREADS)
        fours *= 2, adders /= 2;
    int first = place * fours;       //$ if combine_goes_around
    const int first = place * fours; //$ else
    //$ if dependent_launches == 1 and layout == dense
    grid_dependency_wait();
    launch_dependents();
    //$ end
    if (!begins || parts.count == 1 || place >= blocks || first >= FOURS)
        return;
    //$ if combine_goes_around
#pragma unroll 1
    for (; first < FOURS; first += blocks * fours) // each group then has one thread, which shares its sums with no other
        combine_fours(all, start.tile, parts, first, fours, adders);
    //$ else
    combine_fours(all, start.tile, parts, first, fours, adders);
    //$ end
}
