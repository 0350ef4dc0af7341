//$ needs block_n mask_lookup
//$ include "fragment/seen_keys.cuh"
//$ include "fragment/unit.cuh"

// The mask bits of this thread's two rows of each unit for a K/V tile: `sees` is evaluated for every pair, while S is being computed.
//$ if mask_lookup == by_pair

// True if all keys of the tile exist, and their elements are in aligned pairs.
__device__ __forceinline__ bool tile_in_pairs(const attention_params &p, int tile_n) {
    return keys_in_pairs(p) && (tile_n + 1) * BLOCK_N <= p.len_kv;
}

// Sets the mask bits of such a tile. Tensor values of a key are loaded once for the rows of all units.
template <int COUNT>
__device__ __forceinline__ void seen_in_pairs(const Unit *const (&units)[COUNT], int tile_n, Seen *const (&seen)[COUNT]) {
    const Unit &unit = *units[0];
    const int first = opaque(tile_n * BLOCK_N + unit.lane % 4 * 2); // so that each address is a row address plus a constant
    int position[COUNT][2];
#pragma unroll
    for (int u = 0; u < COUNT; u++) {
        position[u][0] = units[u]->position(units[u]->row()), position[u][1] = units[u]->position(units[u]->row() + 8);
        *seen[u] = {};
    }
#pragma unroll
    for (int i = 0; i < Seen::COLUMNS; i++) {
        MaskKey k;
        set_key(k, first, i / 2 * 8 + i % 2);
#pragma unroll
        for (int u = 0; u < COUNT; u++)
#pragma unroll
            for (int r = 0; r < 2; r++)
                if (sees(unit.p, unit.where, position[u][r], k))
                    seen[u]->bits[r][i / 32] |= 1u << i % 32;
    }
}
//$ end

// Returns the mask bits of any tile.
__device__ __forceinline__ Seen seen_one_by_one(const Unit &unit, int tile_n) {
    const attention_params &p = unit.p;
    int key = tile_n * BLOCK_N + unit.lane % 4 * 2, row = unit.row();
    const int position[2] = {unit.position(row), unit.position(row + 8)};
    Seen seen = {}, there = seen_below(key, {p.len_kv, p.len_kv});
#pragma unroll
    for (int word = 0; word < Seen::WORDS; word++, key += 128) {
#pragma unroll 4 //$ if mask_lookup == no_lookup
#pragma unroll 1 //$ else
        for (int i = 0; i < min(32, Seen::COLUMNS - 32 * word); i++)
#pragma unroll
            for (int r = 0; r < 2; r++)
                if (sees(p, unit.where, position[r], min(key + i / 2 * 8 + i % 2, p.len_kv - 1)))
                    seen.bits[r][word] |= 1u << i;
#pragma unroll
        for (int r = 0; r < 2; r++)
            seen.bits[r][word] &= there.bits[r][word];
    }
    return seen;
}

template <int COUNT>
__device__ __forceinline__ void set_seen(const Unit *const (&units)[COUNT], int tile_n, Seen *const (&seen)[COUNT]) {
    if (tile_in_pairs(units[0]->p, tile_n))        //$ if mask_lookup == by_pair
        return seen_in_pairs(units, tile_n, seen); //$ if mask_lookup == by_pair
#pragma unroll
    for (int u = 0; u < COUNT; u++)
        *seen[u] = seen_one_by_one(*units[u], tile_n);
}
