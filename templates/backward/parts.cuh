//$ needs warps_of_item part_vectors
//$ include "backward/items.cuh"
//$ include "backward/row_statistics_launch.cuh"
//$ include "target/sm_90_sums.cuh"

// Sums of items that several blocks computed in parts. Each warp stores its sums of a part, and the last one to do so adds the sums of
// all parts, in their order: so dK and dV have equal bits from run to run.

constexpr int VECTORS_OF_PART = PART_VECTORS; // of four sums, per thread

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
