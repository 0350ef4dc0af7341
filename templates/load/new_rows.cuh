//$ include "sequence/new_tokens.cuh"
//$ include "work/run.cuh"
//$ include "load/piece_bytes.cuh"

// Rows of a tile of K or V. Rows from `before` on belong to new tokens and come from the tensors of those: the
// launch never reads from the cache what it writes there.
template <typename RowsFrom> struct RowsWithNew {
    RowsFrom cached;
    int before;
    const Input *first; // where the tile's first row would be, if it were a new one
    long long stride;

    __device__ __forceinline__ const Input *from(int row) const {
        const Input *there = cached.from(row); // called by all lanes of a warp
        return row < before ? there : first + row * stride;
    }
};

// The new rows of a K/V head of a sequence.
struct NewRows {
    const Input *k, *v; // rows of its first new token
    int before;         // number of keys that the sequence had before

    // Returns the rows of the tile that begins at `key`; `cached`: its rows in the cache.
    template <typename RowsFrom>
    __device__ __forceinline__ RowsWithNew<RowsFrom> keys(const attention_params &all, const RowsFrom &cached, int key) const {
        return {cached, before - key, k + (key - before) * all.k_new_row_stride, all.k_new_row_stride};
    }
    template <typename RowsFrom>
    __device__ __forceinline__ RowsWithNew<RowsFrom> values(const attention_params &all, const RowsFrom &cached, int key) const {
        return {cached, before - key, v + (key - before) * all.v_new_row_stride, all.v_new_row_stride};
    }
};

__device__ __forceinline__ NewRows new_rows_of(const attention_params &p, const Tile &tile) {
    return {static_cast<const Input *>(p.k_new) + tile.batch * p.k_new_batch_stride + tile.kv_head * p.k_new_head_stride,
            static_cast<const Input *>(p.v_new) + tile.batch * p.v_new_batch_stride + tile.kv_head * p.v_new_head_stride,
            keys_before(p)};
}

// Returns the width in bytes of the widest pieces that rows of K, or of V, consist of both in the cache and among the new tokens.
__device__ __forceinline__ int new_key_bytes(const attention_params &p, int cached) {
    return min(cached, piece_bytes(p.k_new, p.k_new_batch_stride, p.k_new_head_stride, p.k_new_row_stride));
}
__device__ __forceinline__ int new_value_bytes(const attention_params &p, int cached) {
    return min(cached, piece_bytes(p.v_new, p.v_new_batch_stride, p.v_new_head_stride, p.v_new_row_stride));
}
