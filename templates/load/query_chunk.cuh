//$ needs head_dim score
//$ include "load/piece_bytes.cuh"
//$ include "sequence/pair.cuh"
//$ include "work/run.cuh"

// The rows of Q of a sequence, in chunks of 8 columns; zeros where a row is padding.
struct QueryRows {
    const attention_params &p;
    bool whole; // rows consist of pieces of 16 bytes
    //$ if score != custom_score
    // -Q if scale < 0: scale Q K^T = |scale| (-Q) K^T, so the largest product always gives the largest score.
    unsigned signs;
    //$ end

    __device__ __forceinline__ explicit QueryRows(const attention_params &p)
        //$ if score != custom_score
        : p(p), whole(HEAD_DIM % 8 == 0 && piece_bytes(p.q, p.q_batch_stride, p.q_head_stride, p.q_row_stride) == 16),
          signs(p.scale < 0 ? 0x80008000 : 0) {}
    //$ else
        : p(p), whole(HEAD_DIM % 8 == 0 && piece_bytes(p.q, p.q_batch_stride, p.q_head_stride, p.q_row_stride) == 16) {}
    //$ end

    // Null where the row is padding.
    __device__ __forceinline__ const Input *row(const Tile &tile, int row) const {
        const Row at = row_of(p, tile, row);
        return at.query < p.len_q ? static_cast<const Input *>(p.q) + tile.batch * p.q_batch_stride + at.head * p.q_head_stride +
                                        at.query * p.q_row_stride
                                  : nullptr;
    }

    template <bool WHOLE> __device__ __forceinline__ uint4 chunk_of(const Input *row, int column) const {
        const Input *from = row + column;
        uint4 x;
        if (WHOLE)
            x = *reinterpret_cast<const uint4 *>(from);
        else
            x = make_uint4(pair_at<HEAD_DIM>(from, column), pair_at<HEAD_DIM>(from + 2, column + 2),
                           pair_at<HEAD_DIM>(from + 4, column + 4), pair_at<HEAD_DIM>(from + 6, column + 6));
        return make_uint4(x.x ^ signs, x.y ^ signs, x.z ^ signs, x.w ^ signs); //$ if score != custom_score
        return x;                                                              //$ else
    }

    __device__ __forceinline__ uint4 chunk(const Tile &tile, int row, int column) const {
        const Input *from = this->row(tile, row);
        if (!from || column >= HEAD_DIM)
            return make_uint4(0, 0, 0, 0);
        return whole ? chunk_of<true>(from, column) : chunk_of<false>(from, column);
    }
};
