//$ needs block_n consumers bias_stages units changes_sequence

// One warp copies the bias rows that the score adds to S: those of every unit of the Q tile, one K/V tile after the other.

// LANES neighbouring lanes copy a row.
__device__ __forceinline__ void copy_bias_rows(const attention_params &p, const Tile &tile, int query, int key, BiasRows &to) {
    constexpr int LANES = BLOCK_N % 32 == 0 ? 4 : 2;
    const int lane = threadIdx.x % 32, column = lane % LANES * 8;
#pragma unroll 1
    for (int row = lane / LANES; row < 64; row += 32 / LANES) {
        const unsigned short *from = bias_element(p, {tile.batch, tile.head, tile.kv_head},
                                                  position_of(p, min(query + row, p.len_q - 1)), key + column);
#pragma unroll
        for (int i = 0; i < BLOCK_N; i += 8 * LANES)
            copy_piece(&to[row][column + i], from + i);
    }
}

// Called by all lanes of the warp.
__device__ __forceinline__ void produce_bias_rows(const attention_params &all, Shared &shared) {
    Ring<2> tiles = {0};
    Ring<BIAS_STAGES> ring = {0};
    const bool copies = rows_in_pieces(all);
#pragma unroll 1
    for (;;) {
        Tile tile = take_tile(shared, tiles);
        const attention_params p = sequence_of(all, shared.sequence[(tiles + 1).stage()]); //$ if changes_sequence
        __syncwarp();
        if (elect_one())
            barrier_arrive(&shared.tile_empty[(tiles + 1).stage()]);
        if (tile.query < 0)
            break;
        if (!copies)
            continue;
        const attention_params &p = sequence_of(all, tile.batch); //$ if not changes_sequence
        KeyWalk walk = walk_of_tile(p, tile);
#pragma unroll 1
        for (; walk.left > 0; ring.count++) {
            int i = next_keys(p, tile, UNITS, walk), stage = ring.stage();
#pragma unroll 1
            for (int consumer = 0; consumer < CONSUMERS; consumer++) {
                barrier_wait(&shared.bias.empty[stage][consumer], ring.parity() ^ 1);
                if ((i + 1) * BLOCK_N <= p.len_kv) // else the consumers read it themselves
                    copy_bias_rows(p, tile, tile.query + unit_of(consumer) * queries_of_unit(p), i * BLOCK_N,
                                   shared.bias.rows[stage][consumer]);
                barrier_arrive_copied(&shared.bias.full[stage][consumer]);
            }
        }
    }
}
