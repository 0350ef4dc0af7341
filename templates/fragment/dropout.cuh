//$ include "params/attention.h"
//$ include "fragment/philox.cuh"

// Dropout: a weight of P is dropped where its 16 random bits are below the threshold. The bits are a function of seed, offset, head,
// query and key alone (docs/dropout.md). Eight weights share a call of Philox: those of queries i, i + 8 and keys j, j + 8, j + 16,
// j + 24, which one thread holds in accumulators of mma, whether queries are rows or columns.

struct Dropout {
    unsigned threshold; // in the upper half
    uint2 key;          // the seed
    uint2 stream;       // the offset, plus the head counted over all batches
};

__device__ __forceinline__ Dropout dropout_of(const attention_params &p, long long index) {
    const unsigned long long seed = p.dropout_state ? p.dropout_state[0] : p.dropout_seed;
    const unsigned long long stream = (p.dropout_state ? p.dropout_state[1] : p.dropout_offset) + index;
    return {p.dropout_threshold, make_uint2(static_cast<unsigned>(seed), static_cast<unsigned>(seed >> 32)),
            make_uint2(static_cast<unsigned>(stream), static_cast<unsigned>(stream >> 32))};
}

// Returns the random numbers of eight weights: word w is for key j + 8 w, its lower half for query i, its upper half for query i + 8.
__device__ __forceinline__ uint4 random_numbers(const Dropout &dropout, int query, int key) {
    const unsigned i = query, j = key; // unsigned, so that divisions are shifts
    return philox(make_uint4(j / 32 * 8 + j % 8, i / 16 * 8 + i % 8, dropout.stream.x, dropout.stream.y), dropout.key);
}
__device__ __forceinline__ unsigned word_of(const uint4 &numbers, int i) {
    return i == 0 ? numbers.x : i == 1 ? numbers.y : i == 2 ? numbers.z : numbers.w;
}
__device__ __forceinline__ bool is_kept(const Dropout &dropout, unsigned word, bool upper) {
    return (upper ? word : word << 16) >= dropout.threshold; // the lower half of the threshold is 0
}

// True if a single weight is kept.
__device__ __forceinline__ bool keeps_pair(const Dropout &dropout, int query, int key) {
    return is_kept(dropout, word_of(random_numbers(dropout, query, key), key / 8 % 4), query / 8 % 2);
}
