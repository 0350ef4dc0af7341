//$ needs head_dim head_dim_v warps_of_item
//$ include "backward/parts.cuh"

// True if the sums are those of the whole item: there is one part, or this warp is the last, and has added the others'.
__device__ __forceinline__ bool join_parts(const attention_params &p, const Item &item, int warp, float (&dk)[HEAD_DIM / 2],
                                           float (&dv)[HEAD_DIM_V / 2]) {
    const int parts = same_in_warp(item.parts), lane = opaque(static_cast<int>(threadIdx.x) % 32);
    if (parts == 1)
        return true;
    float4 *const own = sums_of_part(p, item, item.part, warp) + lane;
#pragma unroll
    for (int i = 0; i < HEAD_DIM / 8; i++)
        own[32 * i] = make_float4(dk[4 * i], dk[4 * i + 1], dk[4 * i + 2], dk[4 * i + 3]);
#pragma unroll
    for (int i = 0; i < HEAD_DIM_V / 8; i++)
        own[32 * (HEAD_DIM / 8 + i)] = make_float4(dv[4 * i], dv[4 * i + 1], dv[4 * i + 2], dv[4 * i + 3]);
    __syncwarp(); // before the arrival, which publishes the stores of all lanes
    const int before = lane == 0 ? atomic_add_acq_rel(part_counters(p) + item.sums * WARPS_OF_ITEM + warp, 1) : 0;
    if (same_in_warp(before) < parts - 1)
        return false;
    __syncwarp(); // lane 0 has acquired the sums of the others
    add_parts(dk, p, item, parts, warp, lane);
    add_parts(dv, p, item, parts, warp, lane + 32 * (HEAD_DIM / 8));
    return true;
}
