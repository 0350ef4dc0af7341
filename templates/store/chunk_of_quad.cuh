// In accumulators the four lanes of a row, a quad, hold a pair of 16-bit columns each of every chunk of 16 bytes. From its pairs of
// four chunks each lane gets one whole chunk: that of its number in the quad. The warp must be converged.
__device__ __forceinline__ uint4 chunk_of_quad(const unsigned (&pair)[4]) {
    const bool odd = threadIdx.x & 1, upper = threadIdx.x & 2;
    // with the neighbour: of chunks 0 and 1, and of chunks 2 and 3, two pairs of the one that is odd or even as the lane
    const unsigned low = __shfl_xor_sync(0xffffffffu, odd ? pair[0] : pair[1], 1);
    const unsigned high = __shfl_xor_sync(0xffffffffu, odd ? pair[2] : pair[3], 1);
    const uint2 first = odd ? make_uint2(low, pair[1]) : make_uint2(pair[0], low);
    const uint2 second = odd ? make_uint2(high, pair[3]) : make_uint2(pair[2], high);
    // with the other half of the quad: the other two pairs of the one that is kept
    const unsigned x = __shfl_xor_sync(0xffffffffu, upper ? first.x : second.x, 2);
    const unsigned y = __shfl_xor_sync(0xffffffffu, upper ? first.y : second.y, 2);
    return upper ? make_uint4(x, y, second.x, second.y) : make_uint4(first.x, first.y, x, y);
}
