// Writes the K and V of new tokens into a cache, contiguous or paged, in the cache's element type, and rotates Q and K by
// their positions (RoPE, arXiv 2104.09864). Memory-bound: each element is read once and written once.
//
// A warp handles one token and up to HEADS_OF_WARP heads of its Q, K or V. LANES lanes share the row of a head; a lane holds
// the same columns of ROWS rows, so it computes cosines and sines once. All loads are in flight before the warp looks up where
// its token belongs.
//$ include "append_kv.cuh"
//$ launch append_kv grid (total_q + warps - 1) / warps * ((heads + heads_of_warp - 1) / heads_of_warp + (kv_heads + heads_of_warp - 1) / heads_of_warp * 2) block threads shared 0
//$ include "params/append_kv.h"
//$ include "sequence/element.cuh"
//$ include "sequence/cached.cuh"
//$ include "sequence/bfloat16.cuh" if dtype_out == bf16 and rope != none
//$ include "load/vector.cuh"

//$ note The token: its rows of Q, K and V, its sequence, its position.
//$ include "sequence/token_given.cuh" if slots == 1 else "sequence/token_$layout.cuh"

//$ note Its place in the cache.
//$ include "store/cache_slots.cuh" if slots == 1 else "store/cache_contiguous.cuh" if page_size == 0 else "store/cache_$page_table.cuh"
//$ let rotated_keys = rope != none
//$ include "sequence/tensor.cuh"
//$ include "store/cache_scale.cuh" if kv_scale != none
//$ include "store/row_copy.cuh" if kept

//$ include "fragment/rope_$rope_from.cuh" if rope != none
//$ include "fragment/rope.cuh" if rope != none
//$ include "fragment/row_numbers.cuh"

// Returns the i-th head of this lane: LANES neighbouring lanes share head_of_lane(first, 0), head_of_lane(first, 1), ...
__device__ __forceinline__ int head_of_lane(int first, int i) {
    return first + i * (32 / LANES) + static_cast<int>(threadIdx.x) % 32 / LANES;
}

// Rows of one token for this lane's heads from `first` on, below `heads`. All loads are issued before the first one is waited for.
template <int COLUMNS, int DIM, bool ROTATED> struct TokenRows {
    RowPart<COLUMNS, DIM> row[ROWS];

    __device__ __forceinline__ TokenRows(const Tensor<const Input> &from, Source source, int first, int heads) {
#pragma unroll
        for (int i = 0; i < ROWS; i++)
            if (head_of_lane(first, i) < heads)
                row[i] = row_load<COLUMNS, DIM, ROTATED>(from.at(source.sequence, head_of_lane(first, i), source.row));
    }
};

template <int COLUMNS>
__device__ __forceinline__ void append_queries(const append_kv_params &p, int index, int first) {
    Tensor<const Input> from{static_cast<const Input *>(p.q), p.q_batch_stride, p.q_head_stride, p.q_row_stride};
    Tensor<Output> to{static_cast<Output *>(p.q_out), p.q_out_batch_stride, p.q_out_head_stride, p.q_out_row_stride};
    Source source = source_of(p, index);
    TokenRows<COLUMNS, HEAD_DIM, true> rows(from, source, first, p.heads);
    Token token = token_of(p, index);
    if (token.sequence < 0)
        return;
    Rotation<COLUMNS> rotation = rotation_at<COLUMNS>(p, token.position);
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        int head = head_of_lane(first, i);
        if (head >= p.heads)
            continue;
        Numbers<COLUMNS, HEAD_DIM> x = numbers_of(rows.row[i]);
        rotate(x, rotation);
        numbers_store<true, Output, to_bfloat16>(to.at(source.sequence, head, source.row), x); //$ if dtype_out == bf16
        numbers_store<true, Output, to_output>(to.at(source.sequence, head, source.row), x);   //$ else
    }
}

// The cache of K or of V.
struct Cache {
    Tensor<Cached> rows;
    Tensor<float> scale; // of each row //$ if kv_scale != none
};

// Writes the rows of K or V of one token into the cache. ROTATED: the rows are K, and RoPE applies.
template <int COLUMNS, int DIM, bool ROTATED>
__device__ __forceinline__ void append_rows(const append_kv_params &p, int index, int first, const Tensor<const Input> &from,
                                            const Cache &cache) {
    TokenRows<COLUMNS, DIM, ROTATED> rows(from, source_of(p, index), first, p.kv_heads);
    Token token = token_of(p, index);
    if (token.sequence < 0)
        return;
    Place place = place_of(p, index, token);
    if (place.block < 0)
        return;
    Rotation<COLUMNS> rotation;                                                //$ if rope != none
    if constexpr (ROTATED) rotation = rotation_at<COLUMNS>(p, token.position); //$ if rope != none
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        int head = head_of_lane(first, i);
        if (head >= p.kv_heads)
            continue;
        Cached *to = cache.rows.at(place.block, head, place.row);
        //$ if kept and rope == none
        row_copy(to, rows.row[i]);
        //$ elif kept
        if constexpr (ROTATED) {
            Numbers<COLUMNS, DIM> x = numbers_of(rows.row[i]);
            rotate(x, rotation);
            numbers_store<ROTATED, Cached, to_cached>(to, x);
        } else {
            row_copy(to, rows.row[i]);
        }
        //$ else
        Numbers<COLUMNS, DIM> x = numbers_of(rows.row[i]);
        if constexpr (ROTATED) rotate(x, rotation); //$ if rope != none
        scale_row(x, cache.scale, place, head); //$ if kv_scale != none
        numbers_store<ROTATED, Cached, to_cached>(to, x);
        //$ end
    }
}

template <int COLUMNS>
__device__ __forceinline__ void append_keys(const append_kv_params &p, int index, int first) {
    append_rows<COLUMNS, HEAD_DIM, ROTATED_KEYS>(
        p, index, first, {static_cast<const Input *>(p.k), p.k_batch_stride, p.k_head_stride, p.k_row_stride},
        {
            {static_cast<Cached *>(p.k_cache), p.k_cache_batch_stride, p.k_cache_head_stride, p.k_cache_row_stride},
            {p.k_scale, p.k_scale_batch_stride, p.k_scale_head_stride, p.k_scale_row_stride}, //$ if kv_scale != none
        });
}

template <int COLUMNS>
__device__ __forceinline__ void append_values(const append_kv_params &p, int index, int first) {
    append_rows<COLUMNS, HEAD_DIM_V, false>(
        p, index, first, {static_cast<const Input *>(p.v), p.v_batch_stride, p.v_head_stride, p.v_row_stride},
        {
            {static_cast<Cached *>(p.v_cache), p.v_cache_batch_stride, p.v_cache_head_stride, p.v_cache_row_stride},
            {p.v_scale, p.v_scale_batch_stride, p.v_scale_head_stride, p.v_scale_row_stride}, //$ if kv_scale != none
        });
}

// Chunks of heads of Q come first, then those of K, then those of V.
template <int COLUMNS> __device__ __forceinline__ void append_chunk(const append_kv_params &p, int index, int chunk) {
    int q_chunks = (p.heads + HEADS_OF_WARP - 1) / HEADS_OF_WARP;
    int kv_chunks = (p.kv_heads + HEADS_OF_WARP - 1) / HEADS_OF_WARP;
    if (chunk >= q_chunks + kv_chunks)
        append_values<COLUMNS>(p, index, (chunk - q_chunks - kv_chunks) * HEADS_OF_WARP);
    else if (chunk >= q_chunks)
        append_keys<COLUMNS>(p, index, (chunk - q_chunks) * HEADS_OF_WARP);
    else append_queries<COLUMNS>(p, index, chunk * HEADS_OF_WARP); //$ if rope != none
}

extern "C" __global__ void __launch_bounds__(THREADS) append_kv(const __grid_constant__ append_kv_params p) {
    int groups = (p.tokens + WARPS - 1) / WARPS; // of tokens, one token per warp of a block
    int index = static_cast<int>(blockIdx.x) % groups * WARPS + warp_index();
    if (index >= p.tokens)
        return;
    int chunk = static_cast<int>(blockIdx.x) / groups;
    if (p.aligned >= WIDTH) return append_chunk<WIDTH>(p, index, chunk); //$ if width > 1
    append_chunk<1>(p, index, chunk);
}
