//$ needs head_dim head_dim_v block_n
//$ include "backward/items.cuh"
//$ include "backward/row_statistics_launch.cuh"
//$ include "target/sm_90_sums.cuh"

// An item that several blocks computed in parts. Each warp stores its sums of a part, and the last one to do so adds the sums of all
// parts, in their order: so dK and dV have equal bits from run to run.

constexpr int WARPS_OF_ITEM = BLOCK_N / 16;                     // each has 16 keys
constexpr int VECTORS_OF_PART = (HEAD_DIM + HEAD_DIM_V) / 2 / 4; // of four sums, per thread

// Returns where a warp keeps its sums of a part: (VECTORS_OF_PART, 32 lanes), behind the counters.
__device__ __forceinline__ float4 *sums_of_part(const attention_params &p, const Item &item, int part, int warp) {
    // a share has two places: for an item that began in an earlier share, and for one that ends in a later share
    const int place = part == 0 ? item.sums : item.sums / 2 * 2 + 2 * part;
    return reinterpret_cast<float4 *>(part_counters(p) + PART_COUNTERS) + (place * WARPS_OF_ITEM + warp) * (VECTORS_OF_PART * 32ll);
}

// Adds the sums of all parts, AT_ONCE vectors at a time: the others' registers are not in use yet, so that many loads are in flight.
template <int COUNT>
__device__ __forceinline__ void add_parts(float (&sum)[COUNT], const attention_params &p, const Item &item, int parts, int warp, int place) {
    constexpr int AT_ONCE = 16;
#pragma unroll
    for (int first = 0; first < COUNT / 4; first += AT_ONCE) {
#pragma unroll
        for (int i = 4 * first; i < min(4 * (first + AT_ONCE), COUNT); i++)
            sum[i] = 0;
#pragma unroll 1
        for (int part = 0; part < parts; part++) {
            const float4 *const from = sums_of_part(p, item, part, warp) + place;
#pragma unroll
            for (int i = first; i < min(first + AT_ONCE, COUNT / 4); i++) {
                const float4 four = from[32 * i];
                sum[4 * i] += four.x, sum[4 * i + 1] += four.y, sum[4 * i + 2] += four.z, sum[4 * i + 3] += four.w;
            }
        }
    }
}

// True if the sums are those of the whole item: there is one part, or this warp is the last, and has added the others'.
__device__ __forceinline__ bool join_parts(const attention_params &p, const Item &item, int warp, float (&dk)[HEAD_DIM / 2],
                                           float (&dv)[HEAD_DIM_V / 2]) {
    const int parts = same_in_warp(item.parts), lane = set_apart(static_cast<int>(threadIdx.x) % 32);
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
