//$ needs block_n head_dim_v
//$ include "backward/repeat_keys.cuh"

// Stores NaN where a NaN in dO reaches dV of a warp's 16 keys by pairs with a weight. In steps of the block with unseen pairs, a warp may have
// set it to 0 in shared memory (backward/clear_nan.cuh) before this one added its row. `nonfinite`: sums that are not finite anyway.
template <int COUNT>
__device__ __forceinline__ void restore_nan(const attention_backward_params &params, int kv_index, int key0,
                                            const Nonfinite<COUNT> &nonfinite) {
    constexpr int PASS = columns_of_pass(HEAD_DIM_V), QUERIES = 128;
    const attention_params &p = params.forward;
    const int group = p.heads / p.kv_heads, first_of_item = key0 / BLOCK_N * BLOCK_N;
    const int lane = opaque(static_cast<int>(threadIdx.x) % 32);
    Output *const dv = static_cast<Output *>(params.dv) + kv_index / p.kv_heads * params.dv_batch_stride +
                       kv_index % p.kv_heads * params.dv_head_stride;
    __syncwarp(); // other lanes stored these elements before
#pragma unroll 1
    for (int column = 0; column < HEAD_DIM_V; column += PASS) {
        if (__all_sync(0xffffffffu, nonfinite_in_pass<PASS>(nonfinite, column) == 0xffffffff >> (32 - PASS / 2)))
            continue;
        float sum[PASS / 2]; // NaN where a NaN counts
#pragma unroll
        for (float &value : sum)
            value = 0;
#pragma unroll 1
        for (int index = kv_index * group; index < (kv_index + 1) * group; index++) {
            const Where at = where_is(p, index);
#pragma unroll 1
            for (int query0 = first_query(p, key0); query0 < p.len_q; query0 += QUERIES) {
                if (all_pairs_seen(p, at, query0, QUERIES, first_of_item, BLOCK_N))
                    continue; // in a step with these queries alone, nothing was set to 0
                const int query = query0 + 4 * lane; // four of 16, in some order
                bool marked = false;
                if (query < padded_queries(p)) {
                    const float4 dots = *reinterpret_cast<const float4 *>(row_dots(p, index) + query);
                    marked = is_of_nan(dots.x) || is_of_nan(dots.y) || is_of_nan(dots.z) || is_of_nan(dots.w);
                }
                unsigned lanes = __ballot_sync(0xffffffffu, marked);
#pragma unroll 1
                for (int sixteen = query0; lanes != 0; sixteen += 16, lanes >>= 4) {
                    if (!(lanes & 15) || !some_pair_seen(p, at, sixteen, 16, key0, 16))
                        continue;
                    float s[8], unused[8] = {};
                    weigh_sixteen_keys<false>(s, unused, params, at, index, sixteen, key0);
                    add_not_finite(sum, s, d_o_in_memory(params, index).from(column), sixteen);
                }
            }
        }
#pragma unroll
        for (int i = 0; i < PASS / 2; i++) {
            const int key = key0 + lane / 4 + i / 2 % 2 * 8;
            if (sum[i] != sum[i] && key < p.len_kv)
                dv[key * params.dv_row_stride + column + i / 4 * 8 + lane % 4 * 2 + i % 2] = to_output(sum[i]);
        }
    }
}
