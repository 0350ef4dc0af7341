//$ needs block_n mask_lookup
//$ include "fragment/seen_keys.cuh"
//$ include "fragment/unit.cuh"

// The mask bits of this thread's two rows for a K/V tile: `sees` is evaluated for every pair, while S is being computed.
__device__ __forceinline__ Seen seen_of(const Unit &unit, int tile_n) {
    const attention_params &p = unit.p;
    int key = tile_n * BLOCK_N + unit.lane % 4 * 2, row = unit.row();
    const int position[2] = {unit.position(row), unit.position(row + 8)};
    Seen seen = {};
    //$ if mask_lookup == by_pair
    if (keys_in_pairs(p) && (tile_n + 1) * BLOCK_N <= p.len_kv) {
        int first = set_apart(key); // so that addresses are a row's plus constants
#pragma unroll
        for (int i = 0; i < Seen::COLUMNS; i++) {
            MaskKey k;
            set_key(k, first, i / 2 * 8 + i % 2);
#pragma unroll
            for (int r = 0; r < 2; r++)
                if (sees(p, unit.where, position[r], k))
                    seen.bits[r][i / 32] |= 1u << i % 32;
        }
        return seen;
    }
    //$ end
    Seen there = seen_below(key, {p.len_kv, p.len_kv});
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
