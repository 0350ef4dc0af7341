// In an accumulator, each of the four lanes of a row, a quad, holds a pair of 16-bit columns of every chunk of 16 bytes. Exchanges
// the pairs of four chunks, so that each lane gets one whole chunk: the one with its number in the quad. The warp must be converged.
__device__ __forceinline__ uint4 chunk_of_quad(const unsigned (&pair)[4]) {
    const bool odd = threadIdx.x & 1, upper = threadIdx.x & 2;
    // Exchange with the neighbour: an odd lane gets two pairs each of chunks 1 and 3, an even lane of chunks 0 and 2.
    const unsigned low = __shfl_xor_sync(0xffffffffu, odd ? pair[0] : pair[1], 1);
    const unsigned high = __shfl_xor_sync(0xffffffffu, odd ? pair[2] : pair[3], 1);
    const uint2 first = odd ? make_uint2(low, pair[1]) : make_uint2(pair[0], low);
    const uint2 second = odd ? make_uint2(high, pair[3]) : make_uint2(pair[2], high);
    // Exchange with the other half of the quad: a lane gets the other two pairs of the chunk that it keeps.
    const unsigned x = __shfl_xor_sync(0xffffffffu, upper ? first.x : second.x, 2);
    const unsigned y = __shfl_xor_sync(0xffffffffu, upper ? first.y : second.y, 2);
    return upper ? make_uint4(x, y, second.x, second.y) : make_uint4(first.x, first.y, x, y);
}
