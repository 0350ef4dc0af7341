//$ needs step_m
//$ include "backward/pairs_custom.cuh"

// Returns which pairs of the thread's keys and queries of a step are seen: bit i is for element i of S^T (backward/weigh_keys.cuh). All
// pairs are tested together, so that what the mask reads for a key or a query is loaded once. Queries past the last one have no weight,
// whatever their bits are.
__device__ __forceinline__ unsigned seen_pairs(const attention_params &p, const Where &at, int query0, int key0) {
    const int first = query0 + static_cast<int>(threadIdx.x) % 4 * 2;
    unsigned seen = 0;
#pragma unroll
    for (int i = 0; i < STEP_M / 2; i++) {
        const int query = min(first + i / 4 * 8 + i % 2, p.len_q - 1), key = min(key0 + i / 2 % 2 * 8, p.len_kv - 1);
        seen |= static_cast<unsigned>(sees_pair(p, at, query, key)) << i;
    }
    const unsigned first_row = key0 < p.len_kv ? 0x33333333 : 0, second_row = key0 + 8 < p.len_kv ? 0xcccccccc : 0;
    return seen & (first_row | second_row);
}
