//$ needs block_n step_m own_elements batches_together
//$ include "backward/d_params.cuh"
//$ include "backward/help_with_items.cuh"
//$ include "backward/other_tiles.cuh"

// Two warps of the producer warpgroup add dS, the gradient with respect to the score, to the gradients of the parameters that the score
// reads. They take it in 16 bits, from the tiles that the consumers share for dQ.
constexpr int ADDERS = 2;
//$ include "backward/set_elements.cuh" if own_elements

// Adds what COUNT queries from q on contribute with key k; all of them exist. Where possible, an address is the previous plus a step.
template <int COUNT>
__device__ __forceinline__ void add_queries(const attention_backward_params &params, const attention_params &p, const Where &at, int q,
                                            int k, const float (&d_scores)[COUNT]) {
    //$ code query_reads
}

// Adds dS^T (BLOCK_N keys, STEP_M queries) of a step. Each lane takes one key, and neighbouring lanes take neighbouring keys, since the
// elements that they add to are mostly adjacent. No addition is behind a branch: there are too few warps to wait for each addition.
__device__ __forceinline__ void add_tile(const attention_backward_params &params, const SharedKeys &shared, int buffer,
                                         const attention_params &p, const Where &at, int query0, int key0, int adder) {
    const bool whole = query0 + STEP_M <= p.len_q && key0 + BLOCK_N <= p.len_kv;
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 1
    for (int i = adder; i < BLOCK_N / 32 * (STEP_M / 8); i += ADDERS) {
        const int row = i % (BLOCK_N / 32) * 32 + lane, chunk = i / (BLOCK_N / 32), query = query0 + 8 * chunk;
        const uint4 eight = *reinterpret_cast<const uint4 *>(
            &shared.d_s[buffer][row / 64][chunk / 8][row % 64][(chunk % 8 ^ row % 8) * 8]);
        const unsigned pair[4] = {eight.x, eight.y, eight.z, eight.w};
        float d_scores[8];
#pragma unroll
        for (int n = 0; n < 8; n++)
            d_scores[n] = to_float(static_cast<Input>(pair[n / 2] >> n % 2 * 16));
        if (whole) {
            add_queries(params, p, at, position_of(p, query), key0 + row, d_scores);
        } else {
            // dS is 0 where the pair does not exist
#pragma unroll
            for (int n = 0; n < 8; n++)
                add_pair(params, p, at, position_of(p, min(query + n, p.len_q - 1)), min(key0 + row, p.len_kv - 1), 0, d_scores[n]);
        }
    }
}

// Does the same for all steps of an item. `tiles`: number of dS tiles before it.
__device__ __forceinline__ void add_d_params_of_item(const attention_backward_params &params, SharedKeys &shared, const Item &item,
                                                     Way way, //$ if own_elements
                                                     int &tiles, int adder) {
    const attention_params &p = own_sequence(params.forward, item);
    QueryTiles walk = queries_of(p, item);
#pragma unroll 1
    for (;; tiles++) {
        const OtherTile tile = next_queries(p, walk);
        if (tile.first < 0)
            break;
        const int buffer = tiles % 2;
        barrier_wait(&shared.d_s_full[buffer], tiles / 2 % 2);
        //$ if own_elements
        if (way == SET)
            set_tile<true>(params, shared, buffer, p, where_is(p, tile.index), tile.first, item.key0, adder);
        else if (way == ADD_IN_ROWS)
            set_tile<false>(params, shared, buffer, p, where_is(p, tile.index), tile.first, item.key0, adder);
        else
            add_tile(params, shared, buffer, p, where_is(p, tile.index), tile.first, item.key0, adder);
        //$ else
        add_tile(params, shared, buffer, p, where_is(p, tile.index), tile.first, item.key0, adder);
        //$ end
        __syncwarp();
        if (elect_one())
            barrier_arrive(&shared.d_s_empty[buffer]);
    }
}

// Does the same for all items that the block takes.
__device__ __forceinline__ void add_d_params(const attention_backward_params &params, SharedKeys &shared, int adder) {
    int tiles = 0;
    if (elect_one())
        barrier_arrive(&shared.d_s_empty[1]); // as the consumers do in their first step
    //$ if own_elements
    const bool sets = sets_elements(params, static_cast<int>(gridDim.x));
    const Way later = pairs_have_elements(params) ? ADD_IN_ROWS : ADD;
    help_with_items(shared, [&](const Item &item) {
        const bool first = sets && item.kv_index < params.forward.kv_heads; // of the batches //$ if batches_together
        const bool first = sets;                                            //$ else
        add_d_params_of_item(params, shared, item, first ? SET : later, tiles, adder);
    });
    //$ else
    help_with_items(shared, [&](const Item &item) { add_d_params_of_item(params, shared, item, tiles, adder); });
    //$ end
}
