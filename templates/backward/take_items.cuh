//$ needs layout block_n
//$ include "backward/order_of_tiles.cuh"

// Takes the next item; all lanes of the warp receive it. Under a causal mask the first keys of a head are seen by the most queries.
__device__ __forceinline__ Item take_item(const attention_params &all, const ItemCounter &counter, bool first) {
    const int tiles = (all.len_kv + BLOCK_N - 1) / BLOCK_N, heads = all.batch * all.kv_heads;
    for (;; first = false) {
        const int n = next_number(counter, first);
        if (n >= heads * tiles)
            return {0, -1};
        const TileOfHead next = tile_in_order(all, n, heads, tiles);
        const int kv_index = kv_index_of(all, next), key0 = next.tile * BLOCK_N;
        //$ if layout == dense
        return {kv_index, key0};
        //$ else
        const attention_params own = sequence_of(all, kv_index / all.kv_heads);
        if (key0 < own.len_kv)
            return {kv_index, key0, numbers_of(own)};
        //$ end
    }
}
