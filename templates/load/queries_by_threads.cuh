//$ needs head_dim block_m chunks
//$ include "load/pieces.cuh"

// The rows of a tile of queries, whose heads they may be.
struct QueryRows {
    const attention_params &p;
    const Tile &tile;

    __device__ __forceinline__ Row row(int row) const { return row_of(p, tile, row / 64, row % 64); }
    __device__ __forceinline__ bool has(int row) const { return this->row(row).query < p.len_q; }
    __device__ __forceinline__ const unsigned short *at(int row) const {
        const Row at = this->row(row);
        return static_cast<const unsigned short *>(p.q) + tile.batch * p.q_batch_stride + at.head * p.q_head_stride +
               at.query * p.q_row_stride;
    }
};

// All threads copy Q.
__device__ __forceinline__ void copy_queries(const attention_params &p, const Tile &tile, Rows16<BLOCK_M, CHUNKS> &to) {
    copy_tile<HEAD_DIM>(to, QueryRows{p, tile}, piece_bytes(p.q, p.q_batch_stride, p.q_head_stride, p.q_row_stride));
}
