//$ needs head_dim apart warps_of_item
//$ include "backward/parts.cuh"

// True if the sums are those of the whole item: there is one part, or this warp is the last, and has added the others'.
template <bool DK, bool DV, int SUMS, int SUMS_V>
__device__ __forceinline__ bool join_parts(const attention_params &p, const Item &item, int warp, float (&dk)[SUMS], float (&dv)[SUMS_V]) {
    const int parts = same_in_warp(item.parts), lane = opaque(static_cast<int>(threadIdx.x) % 32);
    if (parts <= 1)
        return true;
    constexpr int DV_FIRST = HEAD_DIM / 8; // vector of a part
    float4 *const own = sums_of_part(p, item, item.part, warp) + lane;
#pragma unroll
    for (int i = 0; DK && i < SUMS / 4; i++)
        own[32 * i] = make_float4(dk[4 * i], dk[4 * i + 1], dk[4 * i + 2], dk[4 * i + 3]);
#pragma unroll
    for (int i = 0; DV && i < SUMS_V / 4; i++)
        own[32 * (DV_FIRST + i)] = make_float4(dv[4 * i], dv[4 * i + 1], dv[4 * i + 2], dv[4 * i + 3]);
    __syncwarp(); // before the arrival, which publishes the stores of all lanes
    const int counter = DV ? warp : WARPS_OF_ITEM + warp; // dV and dK are counted apart //$ if apart
    const int counter = warp;                                                           //$ else
    const int before = lane == 0 ? atomic_add_acq_rel(counters_of(p, item) + counter, 1) : 0;
    if (same_in_warp(before) < parts - 1)
        return false;
    __syncwarp(); // lane 0 has acquired the sums of the others
    if constexpr (DK)
        add_parts(dk, p, item, parts, warp, lane);
    if constexpr (DV)
        add_parts(dv, p, item, parts, warp, lane + 32 * DV_FIRST);
    return true;
}
