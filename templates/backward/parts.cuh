//$ needs block_n step_m most_shares counters_of_item warps_of_item part_vectors part_bytes heads_of_part divides_heads
//$ note Places: two of each share; or as many for each tile of keys as parts let its queries stay in the L2 cache, and for few tiles more.
//$ workspace part_bytes * 2 * min(min(most_shares, sm_count), batch * heads * ((len_kv + block_n - 1) / block_n) * ((len_q + step_m - 1) / step_m)) if divides_heads == 0
//$ workspace part_bytes * max(2 * min(min(most_shares, sm_count), batch * heads * ((len_kv + block_n - 1) / block_n) * ((len_q + step_m - 1) / step_m)), min((heads / kv_heads - 1) / heads_of_part, 1) * min(2 * packed_rows / max(packed_keys, 1), 1) * ((heads / kv_heads + heads_of_part - 1) / heads_of_part) * kv_heads * (packed_keys / block_n + batch)) if divides_heads == 1 and most_shares > 0
//$ workspace part_bytes * min(heads / kv_heads - 1, 1) * min(heads * (packed_keys / block_n + batch), max(4 * sm_count, min((heads / kv_heads - 1) / heads_of_part, 1) * min(2 * packed_rows / max(packed_keys, 1), 1) * ((heads / kv_heads + heads_of_part - 1) / heads_of_part) * kv_heads * (packed_keys / block_n + batch))) if most_shares == 0
//$ include "backward/items.cuh"
//$ include "backward/row_statistics_launch.cuh"
//$ include "target/sm_90_sums.cuh"

// Sums of items that several blocks computed in parts. Each warp stores its sums of a part, and the last one to do so adds the sums of
// all parts, in their order: so dK and dV have equal bits from run to run.

constexpr int VECTORS_OF_PART = PART_VECTORS; // of four sums, per thread

// Returns where a warp keeps its sums of a part: (VECTORS_OF_PART, 32 lanes), in the piece behind the counters.
__device__ __forceinline__ float4 *sums_of_part(const attention_params &p, const Item &item, int part, int warp) {
    //$ if most_shares > 0
    // a share has two places: for an item that began in an earlier share, and for one that ends in a later share
    const int of_share = part == 0 ? item.sums : item.sums / 2 * 2 + 2 * part;
    const int place = item.heads > 0 ? item.sums + part : of_share; //$ if divides_heads == 1
    const int place = of_share;                                     //$ else
    //$ else
    const int place = item.sums + part;
    //$ end
    float4 *const first = static_cast<float4 *>(next_piece(part_counters(p) + part_counter_count(p)));
    return first + (place * WARPS_OF_ITEM + warp) * (VECTORS_OF_PART * 32ll);
}

// Returns the counters of an item: (COUNTERS_OF_ITEM).
__device__ __forceinline__ int *counters_of(const attention_params &p, const Item &item) {
    const int index = item.heads > 0 ? item.sums / item.parts : item.sums; //$ if divides_heads == 1 and most_shares > 0
    const int index = item.sums / item.parts;                              //$ elif divides_heads == 1
    const int index = item.sums;                                           //$ else
    return part_counters(p) + index * COUNTERS_OF_ITEM;
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
