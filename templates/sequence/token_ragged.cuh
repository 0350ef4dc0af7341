//$ include "sequence/token.cuh"

// Packed tokens: those of a sequence are the last of the tokens that lengths_kv counts.

template <typename Params> __device__ __forceinline__ Source source_of(const Params &, int index) { return {0, index}; }

// Finds the last sequence that begins at or before the token. The whole warp searches: each round looks at 32 beginnings.
template <typename Params> __device__ __forceinline__ Token token_of(const Params &p, int index) {
    int low = 0, high = p.batch; // it is in [low, high)
    while (high - low > 1) {
        int step = (high - low + 32) / 33, at = low + (static_cast<int>(threadIdx.x) % 32 + 1) * step;
        bool before = at < high && p.cu_seqlens_q[at] <= index;
        low += __popc(__ballot_sync(0xffffffffu, before)) * step;
        high = min(low + step, high);
    }
    int end = p.cu_seqlens_q[low + 1];
    return {index < end ? low : -1, p.lengths_kv[low] - end + index};
}
