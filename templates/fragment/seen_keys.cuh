//$ needs block_n

// Mask bits of a thread's two rows: one bit for each of its columns, 8 i and 8 i + 1 from its first key on, in this order.
struct Seen {
    static constexpr int COLUMNS = BLOCK_N / 4, WORDS = (COLUMNS + 31) / 32;
    unsigned bits[2][WORDS];
};

// s = -INFINITY where the bit is 0. Several bits become predicates at once.
__device__ __forceinline__ void mask_tile(float (&s)[BLOCK_N / 2], const Seen &seen) {
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
        for (int i = 0; i < Seen::COLUMNS; i++)
            if (!(seen.bits[r][i / 32] >> i % 32 & 1))
                s[i / 2 * 4 + 2 * r + i % 2] = -INFINITY;
}

// Returns the mask bits of the keys below `end[row]`. `key`: the thread's first key.
__device__ __forceinline__ Seen seen_below(int key, const int (&end)[2]) {
    Seen seen;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        int keys = max(0, end[r] - key), columns = keys / 8 * 2 + min(keys % 8, 2);
#pragma unroll
        for (int first = 0; first < Seen::COLUMNS; first += 32)
            seen.bits[r][first / 32] =
                columns >= first + 32 ? 0xffffffffu : columns > first ? (1u << (columns - first)) - 1 : 0;
    }
    return seen;
}
