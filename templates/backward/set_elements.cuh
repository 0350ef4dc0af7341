//$ needs block_n step_m
//$ include "backward/own_elements.cuh"

// Gradients of elements that pairs do not share, if pairs_have_elements(). Their places follow from each other, so there are few instructions.

// What is done with the gradients of a tile: ADD where nothing is known of their places.
enum Way { SET, ADD_IN_ROWS, ADD };

template <bool FIRST> __device__ __forceinline__ void set_or_add(float *to, float share) {
    if constexpr (FIRST)
        *to = share;
    else
        atomicAdd(to, share);
}

// Sets the elements of a tile, dS^T (BLOCK_N keys, STEP_M queries), or adds to them if not FIRST. Each lane takes every 32nd key, and four
// queries at a time. `to`: the element of the tile's first query and the lane's first key; `row`: from a query to the
// next. If the tile is not WHOLE, only so many queries and keys from there on exist.
template <bool FIRST, bool WHOLE>
__device__ __forceinline__ void set_elements(float *to, long long row, const SharedKeys &shared, int buffer, int queries, int keys,
                                             int adder) {
    constexpr int KEYS = BLOCK_N / 32, QUERIES = STEP_M / ADDERS; // of a lane
    const int lane = static_cast<int>(threadIdx.x) % 32;
    to += adder * QUERIES * row;
#pragma unroll 1
    for (int query = adder * QUERIES; query < (adder + 1) * QUERIES; query += 4) {
        uint2 four[KEYS];
#pragma unroll
        for (int i = 0; i < KEYS; i++)
            four[i] = *reinterpret_cast<const uint2 *>(
                &shared.d_s[buffer][i / 2][0][i % 2 * 32 + lane][(query / 8 ^ lane % 8) * 8 + query % 8]);
#pragma unroll
        for (int n = 0; n < 4; n++, to += row)
#pragma unroll
            for (int i = 0; i < KEYS; i++)
                if (WHOLE || (query + n < queries && 32 * i < keys))
                    set_or_add<FIRST>(to + 32 * i, to_float(static_cast<Input>((n < 2 ? four[i].x : four[i].y) >> n % 2 * 16)));
    }
}

template <bool FIRST>
__device__ __forceinline__ void set_tile(const attention_backward_params &params, const SharedKeys &shared, int buffer,
                                         const attention_params &p, const Where &at, int query0, int key0, int adder) {
    const int lane = static_cast<int>(threadIdx.x) % 32, queries = p.len_q - query0, keys = p.len_kv - key0 - lane;
    float *const to = element_of(params, at, position_of(p, query0), key0 + lane);
    const long long row = step_of_query(params);
    if (queries >= STEP_M && key0 + BLOCK_N <= p.len_kv)
        set_elements<FIRST, true>(to, row, shared, buffer, queries, keys, adder);
    else
        set_elements<FIRST, false>(to, row, shared, buffer, queries, keys, adder);
}
