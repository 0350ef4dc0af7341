//$ needs mask block_n splits batch_invariant pack_gqa tile_rows blocks_at_once cluster_blocks
//$ let fixed_parts = splits == 0 and batch_invariant == 1
//$ let part_tiles = (2048 + block_n - 1) / block_n if fixed_parts else (512 + block_n - 1) / block_n if splits == 0
//$ note Under a causal mask, a Q tile sees half of the last keys on average.
//$ let half_seen = 1 if mask == causal else 0
//$ splits most max(1, (len_kv + part_tiles * block_n - 1) / (part_tiles * block_n)) if fixed_parts
//$ splits most min(splits, max(1, (len_kv + block_n - 1) / block_n)) if splits > 0
//$ splits most min(64, max(1, len_kv / 512)) tiles (len_q + tile_rows / 64 * (64 / packed_heads) - 1) / (tile_rows / 64 * (64 / packed_heads)) * (heads / packed_heads) * batch on sm_count * blocks_at_once / cluster_blocks keys len_kv seen len_kv - half_seen * (min(len_q, len_kv) / 2) if splits == 0 and not fixed_parts and pack_gqa == 1
//$ splits most min(64, max(1, len_kv / 512)) tiles (len_q + tile_rows - 1) / tile_rows * heads * batch on sm_count * blocks_at_once / cluster_blocks keys len_kv seen len_kv - half_seen * (min(len_q, len_kv) / 2) if splits == 0 and not fixed_parts and pack_gqa == 0

// The K/V tiles that a Q tile needs are split into parts, counted from the first keys on. Each part is a walk of its own.
struct Part {
    int first, end; // of those tiles
};

// Returns the number of parts that `tiles` K/V tiles are split into: at least one, and at most p.splits.
__device__ __forceinline__ int parts_of(const attention_params &p, int tiles) {
    return (tiles + PART_TILES - 1) / PART_TILES; // whatever else the GPU is working on //$ if fixed_parts
    return max(1, min(p.splits, tiles / PART_TILES)); // no part too short to be worth it //$ elif splits == 0
    return min(p.splits, tiles);                                                          //$ else
}

__device__ __forceinline__ Part part_of(const attention_params &p, int split, int tiles) {
    if (p.splits == 1)
        return {0, tiles};
    return {split * PART_TILES, min((split + 1) * PART_TILES, tiles)}; //$ if fixed_parts
    //$ if not fixed_parts
    const int parts = parts_of(p, tiles), each = tiles / parts, more = tiles % parts;
    return {split * each + min(split, more), (split + 1) * each + min(split + 1, more)};
    //$ end
}
