//$ needs rope

// A list of tokens: the caller gives the destination and the position of each.
struct Source { // the rows of a token in Q, K and V
    int sequence, row;
};
struct Token {
    int sequence;
    int position; //$ if rope != none
};

template <typename Params> __device__ __forceinline__ Source source_of(const Params &p, int index) {
    return {index / p.len_q, index % p.len_q};
}
//$ if rope == none
template <typename Params> __device__ __forceinline__ Token token_of(const Params &, int) { return {0}; }
//$ else
template <typename Params> __device__ __forceinline__ Token token_of(const Params &p, int index) { return {0, p.positions[index]}; }
//$ end
