//$ needs head_dim head_dim_v block_n chunks chunks_v units
//$ include "load/pieces.cuh"

// The rows of a tile of keys or values.
struct KeyRows {
    const unsigned short *first;
    long long stride;
    int count;

    __device__ __forceinline__ bool has(int row) const { return row < count; }
    __device__ __forceinline__ const unsigned short *at(int row) const { return first + row * stride; }
};

// The tiles of keys that a tile of queries goes over, copied by all threads ahead of their use.
struct KeyCopies {
    const attention_params &p;
    const Tile &tile;
    int k_piece, v_piece; // bytes
    KeyWalk walk;         // over the tiles that are still to come

    __device__ __forceinline__ KeyCopies(const attention_params &p, const Tile &tile)
        : p(p), tile(tile), k_piece(piece_bytes(p.k, p.k_batch_stride, p.k_head_stride, p.k_row_stride)),
          v_piece(piece_bytes(p.v, p.v_batch_stride, p.v_head_stride, p.v_row_stride)), walk(walk_of_tile(p, tile)) {}

    __device__ __forceinline__ int next() { return next_keys(p, tile, UNITS, walk); }

    // Where the head begins, in elements. A product a round costs less than two registers kept.
    __device__ __forceinline__ long long offset(long long batch_stride, long long head_stride) const {
        return set_apart(tile.batch) * batch_stride + set_apart(tile.kv_head) * head_stride;
    }
    __device__ __forceinline__ void copy_keys(Rows16<BLOCK_N, CHUNKS> &to, int tile_n) const {
        const int key = tile_n * BLOCK_N;
        copy_tile<HEAD_DIM>(to, KeyRows{static_cast<const unsigned short *>(p.k) + key * p.k_row_stride +
                                            offset(p.k_batch_stride, p.k_head_stride),
                                        p.k_row_stride, p.len_kv - key},
                            k_piece);
    }
    __device__ __forceinline__ void copy_values(Rows16<BLOCK_N, CHUNKS_V> &to, int tile_n) const {
        const int key = tile_n * BLOCK_N;
        copy_tile<HEAD_DIM_V>(to, KeyRows{static_cast<const unsigned short *>(p.v) + key * p.v_row_stride +
                                              offset(p.v_batch_stride, p.v_head_stride),
                                          p.v_row_stride, p.len_kv - key},
                              v_piece);
    }
};
