//$ needs clears_in_step block_n step_m head_dim_v
//$ include "backward/repeat_keys.cuh"

// Stores NaN where a NaN in dO of a warp's 16 queries reaches dV by pairs with a weight. In tiles of keys that some query of the step does not
// see, the NaN was taken out of dO (backward/clear_nan.cuh), for the sake of keys that do not see it either. dV must be complete.
__device__ __forceinline__ void restore_nan(const attention_backward_params &params, int index, int query0) {
    const attention_params &p = params.forward;
    const int lane = opaque(static_cast<int>(threadIdx.x) % 32), first_query = query0 + lane % 4 * 2;
    unsigned marked = 0; // the lane's pairs whose query has a NaN: bit i for element i of P^T
#pragma unroll
    for (int i = 0; i < 8; i++)
        marked |= static_cast<unsigned>(is_of_nan(row_dots(p, index)[row_place(first_query + i / 4 * 8 + i % 2)])) << i;
    if (!__any_sync(0xffffffffu, marked != 0))
        return;
    const Where at = where_is(p, index);
    const int kv_index = index / (p.heads / p.kv_heads), end = min(p.len_kv, keys_seen(p, query0 + 15));
    const int step = query0 / STEP_M * STEP_M;
    int key0 = keys_seen(p, step) / BLOCK_N * BLOCK_N;
    if (step + STEP_M > p.len_q) key0 = 0; // consumers did so in every step with pairs that do not exist //$ if clears_in_step
    Output *const dv = static_cast<Output *>(params.dv) + kv_index / p.kv_heads * params.dv_batch_stride +
                       kv_index % p.kv_heads * params.dv_head_stride;
#pragma unroll 1
    for (; key0 < end; key0 += 16) {
        float s[8], unused[8] = {};
        weigh_sixteen_keys<false>(s, unused, params, at, index, query0, key0);
        unsigned pairs = 0;
#pragma unroll
        for (int i = 0; i < 8; i++)
            pairs |= static_cast<unsigned>(s[i] != 0) << i;
#pragma unroll 1
        for (pairs &= marked; pairs != 0; pairs &= pairs - 1) {
            const int i = __ffs(static_cast<int>(pairs)) - 1, query = first_query + i / 4 * 8 + i % 2;
            const Input *const d_o = gradients_at(params, index).d_o + query * params.d_o_row_stride;
            Output *const row = dv + (key0 + lane / 4 + i / 2 % 2 * 8) * params.dv_row_stride;
#pragma unroll 4
            for (int column = 0; column < HEAD_DIM_V; column += 8) {
                const uint4 eight = eight_elements(d_o + column);
                if ((nan_of(eight.x) | nan_of(eight.y) | nan_of(eight.z) | nan_of(eight.w)) == 0)
                    continue;
#pragma unroll 1
                for (int c = column; c < column + 8; c++)
                    if (isnan(to_float(d_o[c])))
                        row[c] = to_output(to_float(d_o[c]));
            }
        }
    }
}
