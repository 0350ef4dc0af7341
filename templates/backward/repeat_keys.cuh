//$ needs dropout head_dim head_dim_v
//$ include "backward/other_tiles.cuh"
//$ include "backward/repeat_rows.cuh"

// Computes the weights of the pairs of 16 keys and 16 queries: P^T in s and, if DK, dS^T in d_weight.
template <bool DK>
__device__ __forceinline__ void weigh_sixteen_keys(float (&s)[8], float (&d_weight)[8], const attention_backward_params &params,
                                                   const Where &at, int index, int query0, int key0) {
    const attention_params &p = params.forward;
    const int kv_index = index / (p.heads / p.kv_heads);
    multiply_sixteen<HEAD_DIM, 4>(s, keys_in_memory(p, kv_index), key0, queries_in_memory(p, index), query0);
    if constexpr (DK)
        multiply_sixteen<HEAD_DIM_V, 4>(d_weight, values_in_memory(p, kv_index), key0, d_o_in_memory(params, index), query0);
    weigh_sixteen<true>(s, d_weight, p, at, index, query0, key0);
}

// Finds the next 16 queries, from query0 on, among which one has a D that is not finite or an LSE that is NaN. Returns len_q or more if
// there are none. query0 is a multiple of 16.
__device__ __forceinline__ int next_nonfinite_queries(const attention_params &p, int index, int query0) {
    const int lane = opaque(static_cast<int>(threadIdx.x) % 32);
#pragma unroll 1
    for (; query0 < p.len_q; query0 += 128) {
        bool nonfinite = false;
        const int query = query0 + 4 * lane; // four of 16, in some order
        if (query < padded_queries(p)) {
            const float4 dots = *reinterpret_cast<const float4 *>(row_dots(p, index) + query);
            const float4 lse2 = *reinterpret_cast<const float4 *>(row_lse2(p, index) + query);
            nonfinite = !(fabsf(dots.x + dots.y) + fabsf(dots.z + dots.w) < INFINITY) || lse2.x != lse2.x || lse2.y != lse2.y ||
                      lse2.z != lse2.z || lse2.w != lse2.w;
        }
        const unsigned lanes = __ballot_sync(0xffffffffu, nonfinite);
        if (lanes != 0)
            return query0 + (__ffs(static_cast<int>(lanes)) - 1) / 4 * 16;
    }
    return query0;
}

// Computes the columns from `column` on of dK or dV of 16 keys, over the queries of all heads that share them: dK += dS^T Q, or
// dV += P^T dO. `some`: only over those of next_nonfinite_queries(). Stops and returns true once all `nonfinite` sums are NaN.
template <bool DK, int PASS>
__device__ __forceinline__ bool sum_over_queries(float (&sum)[PASS / 2], const attention_backward_params &params, int kv_index,
                                                 int key0, int column, unsigned nonfinite, bool some) {
    const attention_params &p = params.forward;
    const int group = p.heads / p.kv_heads;
#pragma unroll
    for (float &value : sum)
        value = 0;
#pragma unroll 1
    for (int index = kv_index * group; index < (kv_index + 1) * group; index++) {
        const Where at = where_is(p, index);
#pragma unroll 1
        for (int query0 = first_query(p, key0); query0 < p.len_q; query0 += 16) {
            if (some)
                query0 = next_nonfinite_queries(p, index, query0);
            if (query0 >= p.len_q || !some_pair_seen(p, at, query0, 16, key0, 16))
                continue;
            float s[8], d_weight[8] = {};
            weigh_sixteen_keys<DK>(s, d_weight, params, at, index, query0, key0);
            if constexpr (DK) {
                add_finite(sum, d_weight, queries_in_memory(p, index).from(column), query0);
            } else {
                const MemoryRows d_o = d_o_in_memory(params, index).from(column);
                if (add_finite(sum, s, d_o, query0))
                    add_not_finite(sum, s, d_o, query0);
            }
            if (all_nan(sum, nonfinite))
                return true;
        }
    }
    return false;
}

// Sums first over the queries that make sums NaN, which may show that the stored sums are right, then over all. Returns whether to store.
template <bool DK, int PASS>
__device__ __forceinline__ bool repeat_pass(float (&sum)[PASS / 2], const attention_backward_params &params, int kv_index,
                                            int key0, int column, unsigned nonfinite) {
    if (!__any_sync(0xffffffffu, nonfinite != 0))
        return false;
#pragma unroll 1
    for (int some = 1; some >= 0; some--)
        if (sum_over_queries<DK, PASS>(sum, params, kv_index, key0, column, nonfinite, some != 0))
            return false;
    return true;
}

// Recomputes and stores dK of 16 keys of a warp where it was not finite: 2 COUNT columns, in groups of PASS neighbours.
template <int PASS, int COUNT, typename Columns = AllColumns>
__device__ __forceinline__ void repeat_dk(const attention_backward_params &params, int kv_index, int key0,
                                          const Nonfinite<COUNT> &nonfinite, Columns columns = {}) {
    __syncwarp(); // other lanes stored these elements the first time
    const attention_params &p = params.forward;
#pragma unroll 1
    for (int i = 0; i < 2 * COUNT; i += PASS) {
        float dk[1][PASS / 2];
        const int column = columns.column_of(i / 8);
        if (repeat_pass<true, PASS>(dk[0], params, kv_index, key0, column, nonfinite_in_pass<PASS>(nonfinite, i)))
            store_rows<PASS>(dk, p.scale, static_cast<Output *>(params.dk) + column, params.dk_batch_stride, params.dk_head_stride,
                             params.dk_row_stride, kv_index / p.kv_heads, kv_index % p.kv_heads, key0, p.len_kv - key0);
    }
}

// Recomputes and stores dV of 16 keys of a warp where it was not finite.
template <int PASS, int COUNT, typename Columns = AllColumns>
__device__ __forceinline__ void repeat_dv(const attention_backward_params &params, int kv_index, int key0,
                                          const Nonfinite<COUNT> &nonfinite, Columns columns = {}) {
    __syncwarp(); // other lanes stored these elements the first time
    const attention_params &p = params.forward;
    const float factor_of_dv = p.dropout_factor; //$ if dropout == 1
    const float factor_of_dv = 1;                //$ else
#pragma unroll 1
    for (int i = 0; i < 2 * COUNT; i += PASS) {
        float dv[1][PASS / 2];
        const int column = columns.column_of(i / 8);
        if (repeat_pass<false, PASS>(dv[0], params, kv_index, key0, column, nonfinite_in_pass<PASS>(nonfinite, i)))
            store_rows<PASS>(dv, factor_of_dv, static_cast<Output *>(params.dv) + column, params.dv_batch_stride,
                             params.dv_head_stride, params.dv_row_stride, kv_index / p.kv_heads, kv_index % p.kv_heads, key0,
                             p.len_kv - key0);
    }
}
