//$ needs block_n
//$ include "expression/split_key.cuh"
//$ include "fragment/unit.cuh"

// Applies the score expression to S of a K/V tile, element by element.
template <typename Key>
__device__ __forceinline__ void score_elements(float (&s)[BLOCK_N / 2], const Unit &unit, int key) {
    const attention_params &p = unit.p;
    const int row = unit.row(), q[2] = {unit.position(row), unit.position(row + 8)};
    int first[2] = {opaque(key), opaque(key)}; // so that each address is a row address plus a constant
#pragma unroll
    for (int i = 0; i < BLOCK_N / 2; i++) {
        int place = 8 * (i / 4) + i % 2;
        Key k;
        if constexpr (sizeof(Key) > sizeof(int))
            set_key(k, first[i / 2 % 2], place);
        else
            set_key(k, min(key + place, p.len_kv - 1), 0);
        s[i] = score_of(p, unit.where, q[i / 2 % 2], k, p.scale * s[i]);
    }
}

__device__ __forceinline__ void apply_score(float (&s)[BLOCK_N / 2], const Unit &unit, int tile_n) {
    int key = tile_n * BLOCK_N + unit.lane % 4 * 2;
    if (sizeof(ScoreKey) > sizeof(int) && keys_in_pairs(unit.p) && (tile_n + 1) * BLOCK_N <= unit.p.len_kv)
        score_elements<ScoreKey>(s, unit, key);
    else
        score_elements<int>(s, unit, key);
}
