//$ include "params/attention.h"

// Which tile of queries this block works on. Blocks start in the order of their index, each as soon as an SM is free, so
// the order decides who shares the L2 cache and who is left over at the end.

struct Tile {
    int query; // first query
    int head, kv_head, batch;
};

__device__ __forceinline__ Tile tile_at(const attention_params &p, int block) {
    int tiles = (p.len_q + BLOCK_M - 1) / BLOCK_M, group = p.heads / p.kv_heads;
    //$ if tile_order == sections
    // A section: as many heads as have their keys and values in half of the L2; all their tiles, heaviest first.
    constexpr long long SECTION_BYTES = 32 << 20;
    long long kv_bytes = 2ll * (HEAD_DIM + HEAD_DIM_V) * max(p.len_kv, 1);
    int section = static_cast<int>(max(1ll, min(SECTION_BYTES / kv_bytes * group, 1ll * p.heads * p.batch)));
    int first = block / (section * tiles) * section, within = block - first * tiles;
    int heads = min(section, p.heads * p.batch - first);
    int head = first + within % heads, tile = tiles - 1 - within / heads;
    //$ elif tile_order == heaviest_first
    int heads = p.heads * p.batch, head = block % heads, tile = tiles - 1 - block / heads;
    //$ else
    int head = block / tiles, tile = block % tiles;
    //$ end
    return {tile * BLOCK_M, head % p.heads, head % p.heads / group, head / p.heads};
}
