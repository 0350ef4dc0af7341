//$ needs block_n step_m warps_of_item part_vectors part_bytes heads_of_part divides_heads
//$ workspace part_bytes * max(2 * min(batch * heads * ((len_kv + block_n - 1) / block_n) * ((len_q + step_m - 1) / step_m), sm_count), min((heads / kv_heads - 1) / heads_of_part, 1) * min(2 * len_q / max(len_kv, 1), 1) * batch * kv_heads * ((heads / kv_heads + heads_of_part - 1) / heads_of_part) * ((len_kv + block_n - 1) / block_n)) if divides_heads == 1 else part_bytes * 2 * min(batch * heads * ((len_kv + block_n - 1) / block_n) * ((len_q + step_m - 1) / step_m), sm_count)
//$ include "backward/items.cuh"
//$ include "backward/row_statistics_launch.cuh"
//$ include "target/sm_90_sums.cuh"

// Sums of items that several blocks computed in parts. Each warp stores its sums of a part, and the last one to do so adds the sums of
// all parts, in their order: so dK and dV have equal bits from run to run.

constexpr int VECTORS_OF_PART = PART_VECTORS; // of four sums, per thread

// Returns where a warp keeps its sums of a part: (VECTORS_OF_PART, 32 lanes), in the piece behind the counters.
__device__ __forceinline__ float4 *sums_of_part(const attention_params &p, const Item &item, int part, int warp) {
    // a share has two places: for an item that began in an earlier share, and for one that ends in a later share
    const int of_share = part == 0 ? item.sums : item.sums / 2 * 2 + 2 * part;
    const int place = item.heads > 0 ? item.sums + part : of_share; //$ if divides_heads == 1
    const int place = of_share;                                     //$ else
    float4 *const first = static_cast<float4 *>(next_piece(part_counters(p) + part_counter_count(p)));
    return first + (place * WARPS_OF_ITEM + warp) * (VECTORS_OF_PART * 32ll);
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
