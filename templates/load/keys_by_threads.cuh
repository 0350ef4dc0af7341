//$ needs block_n units
//$ include "load/tile_rows.cuh"

// The K/V tiles that a Q tile visits. All threads copy them ahead of their use.
struct KeyCopies {
    const attention_params &p;
    const Tile &tile;
    int piece;    // bytes; the same for K and V, to save a register
    KeyWalk walk; // over the remaining tiles

    __device__ __forceinline__ KeyCopies(const attention_params &p, const Tile &tile)
        : p(p), tile(tile), piece(min(piece_bytes(p.k, p.k_batch_stride, p.k_head_stride, p.k_row_stride),
                                      piece_bytes(p.v, p.v_batch_stride, p.v_head_stride, p.v_row_stride))),
          walk(walk_of_tile(p, tile)) {}

    __device__ __forceinline__ int next() { return next_keys(p, tile, UNITS, walk); }

    // Returns where the head begins, in elements. One product per round costs less than keeping two registers.
    __device__ __forceinline__ long long offset(long long batch_stride, long long head_stride) const {
        return opaque(tile.batch) * batch_stride + opaque(tile.kv_head) * head_stride;
    }
    __device__ __forceinline__ TileRows keys(int tile_n) const {
        const int key = tile_n * BLOCK_N;
        return {static_cast<const Input *>(p.k) + key * p.k_row_stride + offset(p.k_batch_stride, p.k_head_stride),
                p.k_row_stride, p.len_kv - key};
    }
    __device__ __forceinline__ TileRows values(int tile_n) const {
        const int key = tile_n * BLOCK_N;
        return {static_cast<const Input *>(p.v) + key * p.v_row_stride + offset(p.v_batch_stride, p.v_head_stride),
                p.v_row_stride, p.len_kv - key};
    }
};
//$ include "load/copy_keys.cuh"
