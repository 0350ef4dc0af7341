//$ needs dtype head_dim block_m chunks
//$ include "load/copy_tile_ahead.cuh"

// The rows of a Q tile, whatever their heads, as a thread steps down them.
struct QueryRows {
    const attention_params &p;
    const Tile &tile;
    int number, column;

    __device__ __forceinline__ void begin(int row, int first_column) { number = row, column = first_column; }
    __device__ __forceinline__ void next(int rows) { number += rows; }
    __device__ __forceinline__ Row row() const { return row_of(p, tile, number / 64, number % 64); }
    __device__ __forceinline__ bool has() const { return row().query < p.len_q; }
    static __device__ __forceinline__ int before() { return 0; }
    __device__ __forceinline__ const Input *from() const {
        const Row at = row();
        return static_cast<const Input *>(p.q) + tile.batch * p.q_batch_stride + at.head * p.q_head_stride +
               at.query * p.q_row_stride + column;
    }
};

// All threads copy Q.
__device__ __forceinline__ int piece_of_queries(const attention_params &p) {
    return piece_bytes(p.q, p.q_batch_stride, p.q_head_stride, p.q_row_stride);
}
__device__ __forceinline__ void copy_queries(const attention_params &p, const Tile &tile, Rows16<BLOCK_M, CHUNKS> &to) {
    copy_tile<HEAD_DIM>(to, QueryRows{p, tile, 0, 0}, piece_of_queries(p));
}
//$ if dtype != fp32
__device__ __forceinline__ void settle_queries(const attention_params &p, const Tile &tile, Rows16<BLOCK_M, CHUNKS> &q) {
    settle_tile<HEAD_DIM>(q, QueryRows{p, tile, 0, 0}, piece_of_queries(p));
}
//$ end
