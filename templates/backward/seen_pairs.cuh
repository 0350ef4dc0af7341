//$ needs step_m
//$ include "backward/pairs_custom.cuh"

// Which pairs of the thread's keys and queries of a step are seen: bit i for element i of S^T (backward/weigh_keys.cuh). All are looked
// at together, so that what the mask reads for a key or a query is loaded once.
__device__ __forceinline__ unsigned seen_pairs(const attention_params &p, const Where &at, int query0, int key0) {
    const int first = query0 + static_cast<int>(threadIdx.x) % 4 * 2;
    unsigned seen = 0;
#pragma unroll
    for (int i = 0; i < STEP_M / 2; i++)
        seen |= static_cast<unsigned>(is_pair_seen(p, at, first + i / 4 * 8 + i % 2, key0 + i / 2 % 2 * 8)) << i;
    return seen;
}
