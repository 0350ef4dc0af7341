//$ needs block_n consumers bias_stages
//$ include "expression/split_key.cuh"

// The score adds rows of a tensor to S, which can be copied before S is known.

// The rows of a unit by the keys of a K/V tile, in shared memory. They are padded, so that the eight rows of a matrix lie in different
// banks.
using BiasRows = unsigned short[64][BLOCK_N + 8];

struct BiasStages {
    BiasRows rows[BIAS_STAGES][CONSUMERS];
    Barrier full[BIAS_STAGES][CONSUMERS], empty[BIAS_STAGES][CONSUMERS];
};

__device__ __forceinline__ void init_barriers(BiasStages &bias) {
    for (int stage = 0; stage < BIAS_STAGES; stage++)
        for (int consumer = 0; consumer < CONSUMERS; consumer++) {
            barrier_init(&bias.full[stage][consumer], 32); // lanes that copy
            barrier_init(&bias.empty[stage][consumer], 4); // warps that read
        }
}

// A key whose element has been loaded, in a pair with that of its neighbour.
struct BiasKey : SplitKey {
    unsigned pair;
    __device__ __forceinline__ unsigned short element() const {
        return static_cast<unsigned short>(place % 2 ? pair >> 16 : pair & 0xffff);
    }
};
// Stands for a key: the score returns the address of its element.
struct BiasPlace : SplitKey {
    const unsigned short **element;
};
//$ code bias

// Can rows be copied in pieces of 16 bytes?
__device__ __forceinline__ bool rows_in_pieces(const attention_params &p) {
    //$ code pieces
}

__device__ __forceinline__ const unsigned short *bias_element(const attention_params &p, const Where &at, int q, int key) {
    const unsigned short *element;
    BiasPlace place;
    set_key(place, key, 0);
    place.element = &element;
    score_of(p, at, q, place, 0);
    return element;
}
