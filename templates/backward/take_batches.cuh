//$ needs block_n
//$ include "backward/order_of_tiles.cuh"
//$ include "backward/own_elements.cuh"

// A tile of keys of one head, of which the block takes `batches` items; the next is number `batch`.
struct OpenTile {
    TileOfHead tile;
    int batch, batches;
};

// Takes the next item; all lanes of the warp receive it. `together`: all batches of a tile follow each other.
__device__ __forceinline__ Item take_item(const attention_params &all, int *counter, OpenTile &open, bool together, bool first) {
    if (open.batch == open.batches) {
        const int tiles = (all.len_kv + BLOCK_N - 1) / BLOCK_N, heads = together ? all.kv_heads : all.batch * all.kv_heads;
        const int n = next_number(counter, first);
        if (n >= heads * tiles)
            return {0, -1};
        open = {tile_in_order(n, heads, tiles), 0, together ? all.batch : 1};
    }
    const int batch = open.batch++;
    return {together ? batch * all.kv_heads + open.tile.head : kv_index_of(all, open.tile), open.tile.tile * BLOCK_N};
}
