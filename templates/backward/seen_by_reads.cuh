//$ needs step_m
//$ include "backward/pairs_custom.cuh"
//$ include "backward/mask_reads.cuh"

// Returns which pairs of the thread's keys and queries of a step are seen: bit i is for element i of S^T (backward/weigh_keys.cuh). Each lane
// loads what the mask reads for every 32nd query. Queries past the last one have no weight, whatever their bits are.
__device__ __forceinline__ unsigned seen_pairs(const attention_params &p, const Where &at, int query0, int key0) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    QueryReads mine[STEP_M / 32];
#pragma unroll
    for (int i = 0; i < STEP_M / 32; i++)
        mine[i] = reads_of_query(p, at, position_of(p, min(query0 + 32 * i + lane, p.len_q - 1)));
    const int first = position_of(p, query0) + lane % 4 * 2, last = position_of(p, p.len_q - 1);
    int keys[2];
    KeyReads of_key[2];
#pragma unroll
    for (int r = 0; r < 2; r++) {
        keys[r] = min(key0 + 8 * r, p.len_kv - 1);
        of_key[r] = reads_of_key(p, at, keys[r]);
    }
    unsigned seen = 0;
#pragma unroll
    for (int i = 0; i < STEP_M / 2; i += 4)
#pragma unroll
        for (int e = 0; e < 2; e++) { // two keys of a query
            const int place = i / 4 * 8 + e, q = min(first + place, last);
            const QueryReads of_query = reads_of_lane(mine[place / 32], place % 32 + lane % 4 * 2);
#pragma unroll
            for (int r = 0; r < 2; r++)
                seen |= static_cast<unsigned>(sees_by_reads(p, at, q, keys[r], of_query, of_key[r])) << (i + 2 * r + e);
        }
    const unsigned first_row = key0 < p.len_kv ? 0x33333333 : 0, second_row = key0 + 8 < p.len_kv ? 0xcccccccc : 0;
    return seen & (first_row | second_row);
}
