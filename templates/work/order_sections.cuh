//$ needs head_dim head_dim_v
//$ include "work/place.cuh"

// A section has as many heads as fit half of L2 with their K and V. It holds all their items, heaviest first.
__device__ __forceinline__ Place place_of(const attention_params &p, unsigned heads, unsigned items, unsigned item) {
    constexpr float SECTION_BYTES = 32 << 20;
    float kv_bytes = 2.0f * (HEAD_DIM + HEAD_DIM_V) * max(p.len_kv, 1);
    const unsigned section = static_cast<unsigned>(
        fminf(fmaxf(SECTION_BYTES * reciprocal_approx(kv_bytes) * (tile_heads(p) / p.kv_heads), 1), 1.0f * heads));
    const unsigned first = item / (section * items) * section, within = item - first * items, wide = min(section, heads - first);
    return {first + within % wide, within / wide};
}
