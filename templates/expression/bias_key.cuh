//$ include "expression/split_key.cuh"

// The score adds rows of a tensor to S. They can be copied before S is known.

// A key whose element has been loaded, in a pair with its neighbour's element.
struct BiasKey : SplitKey {
    unsigned pair;
    __device__ __forceinline__ unsigned short element() const {
        return static_cast<unsigned short>(place % 2 ? pair >> 16 : pair & 0xffff);
    }
};
// Stands in for a key: score_of() writes the address of the key's element to *element.
struct BiasPlace : SplitKey {
    const unsigned short **element;
};
//$ code bias

// True if rows can be copied in pieces of 16 bytes.
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
