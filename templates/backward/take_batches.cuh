//$ needs block_n
//$ include "backward/own_elements.cuh"
//$ include "backward/part_of_heads.cuh"
//$ include "backward/parts_of_items.cuh"

// A tile of keys of one head, of which the block takes `batches` items, or parts; the next is number `batch`.
struct OpenTile {
    TileOfHead tile; // parts count as heads
    int batch, batches;
};

// Takes the next item, or part of an item that has some of the heads; all lanes of the warp receive it. `together`: all batches of a tile
// follow each other.
__device__ __forceinline__ Item take_item(const attention_params &all, const ItemCounter &counter, OpenTile &open, bool together,
                                          bool first) {
    const int parts = counter.parts;
    if (open.batch == open.batches) {
        const int tiles = (all.len_kv + BLOCK_N - 1) / BLOCK_N, heads = (together ? 1 : all.batch) * all.kv_heads * parts;
        const int n = next_number(counter, first);
        if (n >= heads * tiles)
            return {0, -1};
        open = {tile_in_order(all, n, heads, tiles), 0, together ? all.batch : 1};
    }
    const int batch = open.batch++, tile = open.tile.tile, head = open.tile.head / parts, part = open.tile.head - head * parts;
    const int kv_index = together ? batch * all.kv_heads + head : kv_index_of(all, {head, tile});
    if (parts > 1)
        return part_of_heads(all, all, kv_index, tile, part, parts);
    return {kv_index, tile * BLOCK_N};
}
