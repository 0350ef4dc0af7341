//$ include "fragment/dropout.cuh"

// These functions find which pairs of a tile dropout keeps: bit i is for element i of a thread's accumulators of 16 rows. `query` and
// `key` are those of element 0.

// Keys down, queries across.
template <int TILES, int COLUMNS>
__device__ __forceinline__ void find_kept_keys(unsigned (&kept)[TILES], const Dropout &dropout, int query, int key) {
#pragma unroll
    for (unsigned &bits : kept)
        bits = 0;
#pragma unroll
    for (int n = 0; n < COLUMNS / 16; n++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const uint4 numbers = random_numbers(dropout, query + 16 * n + e, key);
#pragma unroll
            for (int t = 0; t < TILES; t++)
#pragma unroll
                for (int r = 0; r < 2; r++) {
                    // the 16 rows of a warp are the first or the second half of the keys of a Philox call
                    const unsigned word = t == 1 || (TILES == 1 && key % 32 >= 16) ? word_of(numbers, 2 + r) : word_of(numbers, r);
                    kept[t] |= static_cast<unsigned>(is_kept(dropout, word, false)) << (8 * n + 2 * r + e);
                    kept[t] |= static_cast<unsigned>(is_kept(dropout, word, true)) << (8 * n + 4 + 2 * r + e);
                }
        }
}

// Queries down, keys across. SKIPPED groups of 8 of the first 32 keys belong to the previous tile.
template <int SKIPPED, int TILES, int COLUMNS>
__device__ __forceinline__ void find_kept_queries_from(unsigned (&kept)[TILES], const Dropout &dropout, int query, int key) {
#pragma unroll
    for (int t = 0; t < TILES; t++) {
        kept[t] = 0;
#pragma unroll
        for (int group = 0; group < COLUMNS / 8 + SKIPPED; group += 4)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const uint4 numbers = random_numbers(dropout, query + 16 * t, key + 8 * (group - SKIPPED) + e);
#pragma unroll
                for (int word = 0; word < 4; word++) {
                    const int i = 4 * (group + word - SKIPPED) + e;
                    if (i < 0 || i >= COLUMNS / 2)
                        continue;
                    kept[t] |= static_cast<unsigned>(is_kept(dropout, word_of(numbers, word), false)) << i;
                    kept[t] |= static_cast<unsigned>(is_kept(dropout, word_of(numbers, word), true)) << (i + 2);
                }
            }
    }
}
template <int TILES, int COLUMNS>
__device__ __forceinline__ void find_kept_queries(unsigned (&kept)[TILES], const Dropout &dropout, int query, int key) {
    if (COLUMNS % 32 != 0 && key % 32 >= 16)
        find_kept_queries_from<2, TILES, COLUMNS>(kept, dropout, query, key);
    else
        find_kept_queries_from<0, TILES, COLUMNS>(kept, dropout, query, key);
}

// Multiplies dP by 1 / (1 - dropout_p) for pairs that are kept, by 0 for the others.
template <int TILES, int COUNT>
__device__ __forceinline__ void drop_gradients(float (&d_weight)[TILES][COUNT], const unsigned (&kept)[TILES], float factor) {
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            d_weight[t][i] = factor * (kept[t] >> i & 1 ? d_weight[t][i] : 0);
}

// Sets P to 0 where it is dropped. The division of the others is applied to dV at the end.
template <int TILES, int COUNT>
__device__ __forceinline__ void drop_weights(float (&weight)[TILES][COUNT], const unsigned (&kept)[TILES]) {
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            weight[t][i] = kept[t] >> i & 1 ? weight[t][i] : 0;
}
