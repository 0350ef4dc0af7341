//$ needs layout block_n
//$ include "backward/part_of_heads.cuh"
//$ include "backward/parts_of_items.cuh"

// Takes the next item, or part of an item that has some of the heads; all lanes of the warp receive it. Tile 0 is the longest of a head.
__device__ __forceinline__ Item take_item(const attention_params &all, int *counter, int parts, bool first) {
    const int tiles = (all.len_kv + BLOCK_N - 1) / BLOCK_N;
    for (;; first = false) {
        const int n = next_number(counter, first);
        if (n >= all.batch * all.kv_heads * parts * tiles)
            return {0, -1};
        const TileOfHead at = part_in_order(all, n, parts);
        //$ if layout == dense
        if (parts == 1)
            return {at.head, at.tile * BLOCK_N};
        return part_of_heads(all, all, at, parts);
        //$ else
        const attention_params own = sequence_of(all, at.head / (parts * all.kv_heads));
        if (at.tile * BLOCK_N >= own.len_kv)
            continue;
        if (parts > 1 && is_long_enough(own, parts))
            return part_of_heads(all, own, at, parts);
        if (at.head % parts == 0) // the whole item
            return {at.head / parts, at.tile * BLOCK_N, numbers_of(own)};
        //$ end
    }
}
