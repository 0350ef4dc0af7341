//$ needs block_n step_m stages key_stages
//$ include "expression/bias_key.cuh"
//$ include "backward/items.cuh"
//$ include "backward/other_tiles.cuh"

// A warp copies the rows that the score adds to S, a step or two ahead of the consumers.

// True if the rows can be copied for an item's keys. Otherwise the consumers load what they need.
__device__ __forceinline__ bool bias_is_copied(const attention_params &p, int key0) {
    return rows_in_pieces(p) && key0 + BLOCK_N <= p.len_kv;
}

// Copies a tile (STEP_M queries, BLOCK_N keys) to shared memory. BLOCK_N / 8 lanes copy a row.
__device__ __forceinline__ void copy_bias_tile(BiasTile &to, const attention_params &p, const Where &at, int query0, int key0) {
    constexpr int LANES = BLOCK_N / 8;
    const int lane = static_cast<int>(threadIdx.x) % 32, column = lane % LANES * 8;
#pragma unroll 4
    for (int row = lane / LANES; row < STEP_M; row += 32 / LANES)
        copy_piece(&to[row][column], bias_element(p, at, position_of(p, min(query0 + row, p.len_q - 1)), key0 + column));
}

//$ note The loop of help_with_items(), written out: with a call, ptxas 13.0 spills 24 bytes here.
// Copies the tiles of all steps of all items that the block takes.
__device__ __forceinline__ void copy_bias(const attention_params &all, SharedKeys &shared) {
    const bool elected = elect_one();
    Ring<STAGES> steps = {0};
#pragma unroll 1
    for (Ring<KEY_STAGES> items = {0};; items.count++) {
        const int stage = items.stage();
        barrier_wait(&shared.keys_full[stage], items.parity());
        const Item &item = shared.item[stage];
        if (item.key0 < 0)
            break;
        const attention_params &p = own_sequence(all, item);
        QueryTiles walk = queries_of(p, item);
        bool last = false;
#pragma unroll 1
        for (; !last; steps.count++) {
            const OtherTile tile = next_queries(p, walk);
            last = tile.first < 0;
            barrier_wait(&shared.q_empty[steps.stage()], steps.parity() ^ 1);
            if (!last && bias_is_copied(p, item.key0))
                copy_bias_tile(shared.bias[steps.stage()], p, where_is(p, tile.index), tile.first, item.key0);
            barrier_arrive_copied(&shared.q_full[steps.stage()]);
        }
        if (elected) // the consumers release the item after its last step, for which all lanes have arrived
            barrier_arrive(&shared.keys_empty[stage]);
    }
}
