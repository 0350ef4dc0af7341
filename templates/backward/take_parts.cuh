//$ needs layout block_n
//$ include "backward/part_of_heads.cuh"
//$ include "backward/parts_of_items.cuh"

// Takes the next item, or part of an item that has some of the heads; all lanes of the warp receive it.
__device__ __forceinline__ Item take_item(const attention_params &all, const ItemCounter &counter, bool first) {
    const int tiles = (all.len_kv + BLOCK_N - 1) / BLOCK_N, parts = counter.parts;
    for (;; first = false) {
        const int n = next_number(counter, first);
        if (n >= all.batch * all.kv_heads * parts * tiles)
            return {0, -1};
        const TileOfHead at = part_in_order(all, n, parts);
        const int head = at.head / parts, part = at.head - head * parts, kv_index = kv_index_of(all, {head, at.tile});
        //$ if layout == dense
        if (parts > 1)
            return part_of_heads(all, all, kv_index, at.tile, part, parts);
        return {kv_index, at.tile * BLOCK_N};
        //$ else
        const attention_params own = sequence_of(all, kv_index / all.kv_heads);
        if (at.tile * BLOCK_N >= own.len_kv)
            continue;
        if (parts > 1 && is_long_enough(all, own, parts))
            return part_of_heads(all, own, kv_index, at.tile, part, parts);
        if (part == 0) // the whole item
            return {kv_index, at.tile * BLOCK_N, numbers_of(own)};
        //$ end
    }
}
