//$ needs head_dim score page_size
//$ include "fragment/unit.cuh"

// S (16, KEYS) = Q K^T in fp32, for the warp's rows of the unit and keys from `first` on, in the layout of accumulators of mma: for
// rare cases. The last row stands in for rows of Q and K that do not exist: such scores are masked, or not stored.
template <int KEYS>
__device__ __forceinline__ void scores_from_memory(float (&s)[KEYS / 2], const Unit &unit, int first) {
    const attention_params &p = unit.p;
    const Input *k = static_cast<const Input *>(p.k) + unit.tile.kv_head * p.k_head_stride;                                      //$ if page_size > 0
    const Input *k = static_cast<const Input *>(p.k) + unit.tile.batch * p.k_batch_stride + unit.tile.kv_head * p.k_head_stride; //$ else
#pragma unroll
    for (float &score : s)
        score = 0;
#pragma unroll 1
    for (int column = 0; column < HEAD_DIM; column++) {
        float query[2];
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const Row at = unit.at(unit.row() + 8 * r);
            query[r] = static_cast<const Input *>(p.q)[unit.tile.batch * p.q_batch_stride + at.head * p.q_head_stride +
                                                       min(at.query, p.len_q - 1) * p.q_row_stride + column];
            query[r] = p.scale < 0 ? -query[r] : query[r]; //$ if score != custom_score
        }
#pragma unroll
        for (int i = 0; i < KEYS / 2; i++) {
            const int key = min(first + i / 4 * 8 + unit.lane % 4 * 2 + i % 2, p.len_kv - 1);
            const float element = k[paged_row(p, key, p.k_batch_stride, p.k_row_stride) + column]; //$ if page_size > 0
            const float element = k[key * p.k_row_stride + column];                                //$ else
            s[i] = fmaf(query[i / 2 % 2], element, s[i]);
        }
    }
}
