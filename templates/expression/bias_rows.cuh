//$ needs block_n
//$ include "expression/split_key.cuh"

// What a score adds to S lies in rows of a tensor, which can be copied before S is known.

// A unit's rows of it by a K/V tile, in shared memory; lines are shifted, so that those of a matrix lie in all banks.
using BiasRows = unsigned short[64][BLOCK_N + 8];

// A key whose element has come, in a pair with its neighbour's.
struct BiasKey : SplitKey {
    unsigned pair;
    __device__ __forceinline__ unsigned short element() const {
        return static_cast<unsigned short>(place % 2 ? pair >> 16 : pair & 0xffff);
    }
};
// In place of a key: asks the score where its element is.
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
