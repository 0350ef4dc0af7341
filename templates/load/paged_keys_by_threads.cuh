//$ needs block_n units page_size
//$ include "load/paged.cuh"
//$ if page_size % block_n == 0
//$ include "load/tile_rows.cuh"

using KeyRows = TileRows; // of a tile of K or V, which lies in one page
//$ else
//$ include "load/pieces.cuh"

// The rows of a tile of K or V, which lie in pages, as a thread steps down them. A row past the end of the sequence
// has no page.
struct KeyRows {
    const attention_params &p;
    const Input *column; // of the head, in row 0 of page 0
    long long page_stride, row_stride;
    int key, left; // key of this row; number of existing rows from this one on
    const Input *row;

    __device__ __forceinline__ void find() {
        row = has() ? column + paged_row(p, key, page_stride, row_stride) : column;
    }
    __device__ __forceinline__ void begin(int first, int at) {
        column += at, key += first, left -= first;
        find();
    }
    __device__ __forceinline__ void next(int rows) {
        key += rows, left -= rows;
        find();
    }
    __device__ __forceinline__ bool has() const { return left > 0; }
    static __device__ __forceinline__ int before() { return 0; }
    __device__ __forceinline__ const Input *from() const { return row; }
};
//$ end

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

    __device__ __forceinline__ KeyRows rows(const void *tensor, long long page_stride, long long head_stride,
                                            long long row_stride, int tile_n) const {
        const Input *head = static_cast<const Input *>(tensor) + opaque(tile.kv_head) * head_stride;
        const int key = tile_n * BLOCK_N;
        //$ if page_size % block_n == 0
        return {head + paged_row(p, key, page_stride, row_stride), row_stride, p.len_kv - key};
        //$ else
        return {p, head, page_stride, row_stride, key, p.len_kv - key, head};
        //$ end
    }
    __device__ __forceinline__ KeyRows keys(int tile_n) const {
        return rows(p.k, p.k_batch_stride, p.k_head_stride, p.k_row_stride, tile_n);
    }
    __device__ __forceinline__ KeyRows values(int tile_n) const {
        return rows(p.v, p.v_batch_stride, p.v_head_stride, p.v_row_stride, tile_n);
    }
};
//$ include "load/copy_keys.cuh"
