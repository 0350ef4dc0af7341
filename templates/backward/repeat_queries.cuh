//$ needs head_dim head_dim_v
//$ include "backward/other_tiles.cuh"
//$ include "backward/repeat_rows.cuh"

// Recomputes and stores dQ of 16 queries of a warp where it was not finite: dQ += dS K.
template <int COUNT>
__device__ __forceinline__ void repeat_dq(const attention_backward_params &params, int index, int query0, const Nonfinite<COUNT> &nonfinite) {
    __syncwarp(); // other lanes stored these elements the first time
    const attention_params &p = params.forward;
    const int kv_index = index / (p.heads / p.kv_heads);
    const MemoryRows q = queries_in_memory(p, index), d_o = d_o_in_memory(params, index);
    const MemoryRows k = keys_in_memory(p, kv_index), v = values_in_memory(p, kv_index);
    const Where at = where_is(p, index);
    constexpr int PASS = columns_of_pass(HEAD_DIM);
#pragma unroll 1
    for (int column = 0; column < HEAD_DIM; column += PASS) {
        float dq[1][PASS / 2] = {};
        const unsigned wanted = nonfinite_in_pass<PASS>(nonfinite, column);
        bool right = !__any_sync(0xffffffffu, wanted != 0);
#pragma unroll 1
        for (int key0 = 0; key0 < p.len_kv && !right; key0 += 16) {
            if (!some_pair_seen(p, at, query0, 16, key0, 16))
                continue;
            float s[8], d_weight[8];
            multiply_sixteen<HEAD_DIM, 1>(s, q, query0, k, key0);
            multiply_sixteen<HEAD_DIM_V, 1>(d_weight, d_o, query0, v, key0);
            weigh_sixteen<false>(s, d_weight, p, at, index, query0, key0);
            add_finite(dq[0], d_weight, k.from(column), key0);
            right = all_nan(dq[0], wanted);
        }
        if (!right)
            store_rows<PASS>(dq, p.scale, static_cast<Output *>(params.dq) + column, params.dq_batch_stride, params.dq_head_stride,
                             params.dq_row_stride, index / p.heads, index % p.heads, query0, p.len_q - query0);
    }
}
