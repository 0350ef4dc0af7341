//$ needs block_n
//$ include "fragment/dropout.cuh"
//$ include "fragment/unit.cuh"

// Sets P = 0 where it is dropped, in the accumulator layout of mma and wgmma. A thread holds both queries of a Philox call and, of the
// 32 keys in four neighbouring groups of 8 columns, the keys of that call.

// SKIPPED groups of the first 32 keys belong to the previous tile.
template <int SKIPPED>
__device__ __forceinline__ void drop_weights_from(float (&s)[BLOCK_N / 2], const Dropout &dropout, int query, int key) {
#pragma unroll
    for (int group = 0; group < BLOCK_N / 8 + SKIPPED; group += 4)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const uint4 numbers = random_numbers(dropout, query, key + 8 * (group - SKIPPED) + e);
#pragma unroll
            for (int word = 0; word < 4; word++) {
                const int i = 4 * (group + word - SKIPPED) + e;
                if (i < 0 || i >= BLOCK_N / 2)
                    continue;
                s[i] = is_kept(dropout, word_of(numbers, word), false) ? s[i] : 0;
                s[i + 2] = is_kept(dropout, word_of(numbers, word), true) ? s[i + 2] : 0;
            }
        }
}

__device__ __forceinline__ void drop_weights(float (&s)[BLOCK_N / 2], const Unit &unit, int key0) {
    const Row at = unit.at(unit.row());
    const Dropout dropout = dropout_of(unit.p, static_cast<long long>(unit.tile.batch) * unit.p.heads + at.head);
    const int key = key0 + unit.lane % 4 * 2;
    if (BLOCK_N % 32 != 0 && key0 % 32 != 0) // it is 16 then
        drop_weights_from<2>(s, dropout, at.query, key);
    else
        drop_weights_from<0>(s, dropout, at.query, key);
}
