//$ needs block_n most_shares l2_bytes

// Divides the work of a launch, all items of which are equally long.
__device__ __forceinline__ Shares shares_of(const attention_params &p) {
    const int tiles = (p.len_kv + BLOCK_N - 1) / BLOCK_N, items = p.batch * p.kv_heads * tiles;
    const int blocks = min(static_cast<int>(gridDim.x), MOST_SHARES), of_item = steps_of_tile(p, 0), longest = ITEM_START + of_item;
    const int shared = items < blocks ? items : items % blocks; // all blocks end their last whole item together
    const int total = shared * longest, steps = (total + blocks - 1) / blocks;
    const bool stays_in_l2 = bytes_of_queries(p, (shared / tiles + 1ll) * (p.heads / p.kv_heads)) <= L2_BYTES;
    // Otherwise all items have equal parts, if there are blocks for two or more: blocks with the same part read the same queries.
    const int parts = shared > 0 ? blocks / shared : 0;
    if (!stays_in_l2 && parts > 1) {
        const int of_part = (of_item + parts - 1) / parts;
        return {items - shared, of_part, shared * parts * of_part, parts * of_part - of_item};
    }
    if (!suits_shares(steps, longest, stays_in_l2))
        return {items, 1, 0, 0};
    return {items - shared, steps, total, ITEM_START};
}
