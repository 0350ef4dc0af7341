//$ needs head_dim head_dim_v layout page_size page_table warps rope rope_from half
//$ let rotated_keys = rope != none
//$ include "sequence/new_tokens.cuh"
//$ include "sequence/tensor.cuh"
//$ include "sequence/token_$layout.cuh" if layout != dense
//$ include "store/cache_contiguous.cuh" if page_size == 0 else "store/cache_$page_table.cuh"
//$ include "fragment/rope_pair.cuh"
//$ include "fragment/rope_$rope_from.cuh" if rope != none

// Writes new tokens to the cache. Any warp may write any of them, since no launch reads there what it writes.

// A row of K or V of a new token, in registers: lane i has pairs i, i + 32, ... of its elements. ROTATED: K, with a rotary embedding.
template <int DIM, bool ROTATED> struct NewRow {
    static constexpr int PAIRS = (DIM + 1) / 2, COUNT = (PAIRS + 31) / 32;
    Input x[COUNT][2];

    static __device__ __forceinline__ int element(int i, int which) {
        const int pair = threadIdx.x % 32 + 32 * i;
        return ROTATED ? pair_element(pair, which) : 2 * pair + which;
    }
    __device__ __forceinline__ explicit NewRow(const Input *row) {
#pragma unroll
        for (int i = 0; i < COUNT; i++)
#pragma unroll
            for (int which = 0; which < 2; which++)
                if (element(i, which) < DIM)
                    x[i][which] = row[element(i, which)];
    }
    __device__ __forceinline__ void store(const attention_params &p, Input *row, int position) {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            //$ if rope != none
            const int pair = threadIdx.x % 32 + 32 * i;
            if (ROTATED && pair < HALF) {
                float a = to_float(x[i][0]), b = to_float(x[i][1]), cosine, sine;
                angle_of(p, position, pair, cosine, sine);
                turn(a, b, cosine, sine);
                x[i][0] = to_input(a), x[i][1] = to_input(b);
            }
            //$ end
#pragma unroll
            for (int which = 0; which < 2; which++)
                if (element(i, which) < DIM)
                    row[element(i, which)] = x[i][which];
        }
    }
};

template <int DIM, bool ROTATED>
__device__ __forceinline__ void append_row(const attention_params &p, const Tensor<const Input> &from, const Tensor<Input> &cache,
                                           int index, int head) {
    const Source source = source_of(p, index);
    NewRow<DIM, ROTATED> row(from.at(source.sequence, head, source.row)); // loaded before anything is looked up
    const Token token = token_of(p, index);
    if (token.sequence < 0)
        return;
    const Place place = place_of(p, index, token);
    if (place.block >= 0)
        row.store(p, cache.at(place.block, head, place.row), token.position);
}

// To be called once by every warp of the launch. Blocks without a run are the last ones, so the last blocks take the first rows.
__device__ __forceinline__ void append_tokens(const attention_params &p) {
    const Tensor<const Input> k_new{static_cast<const Input *>(p.k_new), p.k_new_batch_stride, p.k_new_head_stride, p.k_new_row_stride};
    const Tensor<const Input> v_new{static_cast<const Input *>(p.v_new), p.v_new_batch_stride, p.v_new_head_stride, p.v_new_row_stride};
    const Tensor<Input> k{static_cast<Input *>(const_cast<void *>(p.k)), p.k_batch_stride, p.k_head_stride, p.k_row_stride};
    const Tensor<Input> v{static_cast<Input *>(const_cast<void *>(p.v)), p.v_batch_stride, p.v_head_stride, p.v_row_stride};
    const long long tokens = p.total_q;                                   //$ if layout == ragged
    const long long tokens = static_cast<long long>(p.batch) * p.len_q;   //$ else
    const long long first = static_cast<long long>(warp_index()) * gridDim.x + (gridDim.x - 1 - blockIdx.x);
#pragma unroll 1
    for (long long row = first; row < 2 * tokens * p.kv_heads; row += static_cast<long long>(gridDim.x) * WARPS) {
        const int index = static_cast<int>(row / 2 / p.kv_heads), head = static_cast<int>(row / 2 % p.kv_heads);
        if (row % 2 == 0)
            append_row<HEAD_DIM, ROTATED_KEYS>(p, k_new, k, index, head);
        else
            append_row<HEAD_DIM_V, false>(p, v_new, v, index, head);
    }
}
