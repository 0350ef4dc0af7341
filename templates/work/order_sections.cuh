//$ needs head_dim head_dim_v

// Which item of work comes when: blocks start in the order of their index, each as soon as an SM is free, so the order
// decides who shares the L2 cache and who is left over at the end.
struct Place {
    int head, order; // over all batches, of those that have tiles of their own; 0 is the heaviest item of a head
};

// A section: as many heads as have their keys and values in half of the L2; all their items, heaviest first.
__device__ __forceinline__ Place place_of(const attention_params &p, int items, int item) {
    int heads = tile_heads(p), all_heads = heads * p.batch;
    constexpr float SECTION_BYTES = 32 << 20;
    float kv_bytes = 2.0f * (HEAD_DIM + HEAD_DIM_V) * max(p.len_kv, 1);
    int section = static_cast<int>(
        fminf(fmaxf(SECTION_BYTES * reciprocal_approx(kv_bytes) * (heads / p.kv_heads), 1), 1.0f * all_heads));
    int first = item / (section * items) * section, within = item - first * items, wide = min(section, all_heads - first);
    return {first + within % wide, within / wide};
}
