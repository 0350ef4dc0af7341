//$ needs block_m block_n chunks head_dim head_dim_v v_pitch
//$ include "load/copy_rows.cuh"

// Copies from global to shared memory: the Q tile, and a tile of the `count` keys that head.k and head.v point to.
struct Copies {
    bool q_chunks, k_chunks, v_chunks; // rows consist of aligned chunks

    __device__ __forceinline__ Copies(const attention_params &p)
        : q_chunks(in_chunks<Input>(p.q, p.q_batch_stride, p.q_head_stride, p.q_row_stride, HEAD_DIM)),
          k_chunks(in_chunks<Input>(p.k, p.k_batch_stride, p.k_head_stride, p.k_row_stride, HEAD_DIM)),
          v_chunks(in_chunks<Input>(p.v, p.v_batch_stride, p.v_head_stride, p.v_row_stride, HEAD_DIM_V)) {}

    __device__ __forceinline__ void copy_q(Shared &tile, const attention_params &p, const Head &head, int row0) const {
        copy_rows<BLOCK_M, CHUNKS, HEAD_DIM>(tile.q, head.q + row0 * p.q_row_stride, p.q_row_stride, p.len_q - row0, q_chunks);
    }
    __device__ __forceinline__ void copy_k(Shared &tile, const attention_params &p, const Head &head, int count) const {
        copy_rows<BLOCK_N, CHUNKS, HEAD_DIM>(tile.k, head.k, p.k_row_stride, count, k_chunks);
    }
    __device__ __forceinline__ void copy_v(Shared &tile, const attention_params &p, const Head &head, int count) const {
        copy_rows<BLOCK_N, V_PITCH, HEAD_DIM_V>(tile.v, head.v, p.v_row_stride, count, v_chunks);
    }
};

__device__ __forceinline__ void advance_keys(const attention_params &p, Head &head, int keys) {
    head.k += keys * p.k_row_stride;
    head.v += keys * p.v_row_stride;
}
