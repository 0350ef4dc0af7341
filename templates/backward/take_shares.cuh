//$ needs block_n divides_heads
//$ include "backward/order_of_tiles.cuh"
//$ include "backward/part_of_heads.cuh" if divides_heads == 1
//$ include "backward/shares.cuh"

// What the block has left of the share that it took: steps of the shared items.
struct OpenShare {
    int next, end;
};

// Takes the next item, or part of an item; all lanes of the warp receive it.
__device__ __forceinline__ Item take_item(const attention_params &all, const ItemCounter &counter, const Shares &shares, OpenShare &open,
                                          bool first) {
    const int tiles = (all.len_kv + BLOCK_N - 1) / BLOCK_N, heads = all.batch * all.kv_heads;
    for (;; first = false) {
        if (open.next == open.end) {
            const int n = next_number(counter, first);
            if (n < shares.whole) {
                //$ if divides_heads == 1
                if (const int parts = shares.parts; parts > 1) {
                    const TileOfHead at = part_in_order(all, n, parts);
                    return part_of_heads(all, all, at.head / parts, at.tile, at.head % parts, parts);
                }
                //$ end
                const TileOfHead tile = tile_in_order(all, n, heads, tiles);
                return {kv_index_of(all, tile), tile.tile * BLOCK_N};
            }
            open.next = (n - shares.whole) * shares.steps;
            if (open.next >= shares.total)
                return {0, -1};
            open.end = min(open.next + shares.steps, shares.total);
        }
        const SharedStep at = find_step(all, shares, open.next);
        const TileOfHead tile = tile_in_order(all, at.item, heads, tiles);
        const int begin = open.next - at.step, end = begin + at.steps; // of the item
        const int first_step = max(at.step, shares.start), steps = min(end, open.end) - begin - first_step;
        const int share = open.next / shares.steps;
        const int first_share = (begin + shares.start) / shares.steps, last_share = (end - 1) / shares.steps;
        open.next = min(end, open.end);
        if (steps > 0)
            return {kv_index_of(all, tile), tile.tile * BLOCK_N, share - first_share, last_share - first_share + 1,
                    2 * first_share + (first_share * shares.steps < begin),
                    0, //$ if divides_heads == 1
                    first_step - shares.start, steps};
    }
}
