// Random numbers from a counter and a key: Philox4x32-7 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).

__device__ __forceinline__ uint4 philox(uint4 counter, uint2 key) {
#pragma unroll
    for (int round = 0; round < 7; round++) {
        const unsigned long long a = 0xD2511F53ull * counter.x, b = 0xCD9E8D57ull * counter.z;
        counter = make_uint4(static_cast<unsigned>(b >> 32) ^ counter.y ^ key.x, static_cast<unsigned>(b),
                             static_cast<unsigned>(a >> 32) ^ counter.w ^ key.y, static_cast<unsigned>(a));
        key = make_uint2(key.x + 0x9E3779B9u, key.y + 0xBB67AE85u);
    }
    return counter;
}
