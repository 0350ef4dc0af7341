//$ needs block_n units page_size share changes_sequence
//$ include "load/paged.cuh"

// Returns the first key of a share. Past the end of the sequence, its last rows are loaded again: P is 0 there, and no other page is known.
__device__ __forceinline__ int share_of_key(const attention_params &p, int key) {
    return min(key, (p.len_kv - 1) / SHARE * SHARE);
}

// One thread loads K, another loads V. Each has one tensor and one ring of stages. A K/V tile is loaded in shares,
// each of which lies in one page.
template <int PANELS_OF, int STAGES_OF>
__device__ __forceinline__ void produce_keys(const attention_params &all, Shared &shared, const tensor_map &map,
                                             Panels<PANELS_OF, BLOCK_N> *to, Barrier *full, Barrier *empty) {
    Ring<2> tiles = {0};
    Ring<STAGES_OF> ring = {0};
#pragma unroll 1
    for (;;) {
        Tile tile = take_tile(shared, tiles);
        const attention_params p = sequence_of(all, shared.sequence[(tiles + 1).stage()]); //$ if changes_sequence
        barrier_arrive(&shared.tile_empty[(tiles + 1).stage()]);
        if (tile.query < 0)
            break;
        const attention_params &p = sequence_of(all, tile.batch); //$ if not changes_sequence
        KeyWalk walk = walk_of_tile(p, tile);
#pragma unroll 1
        for (; walk.left > 0; ring.count++) {
            int i = next_keys(p, tile, UNITS, walk), stage = ring.stage();
            int page = page_of(p, share_of_key(p, i * BLOCK_N)); // requested before the stage is empty
            barrier_wait(&empty[stage], ring.parity() ^ 1);
            barrier_expect(&full[stage], PANELS_OF * BLOCK_N * 128);
#pragma unroll 1
            for (int row = 0; row < BLOCK_N; row += SHARE) {
                const int key = share_of_key(p, i * BLOCK_N + row);
                const int next = page_of(p, share_of_key(p, i * BLOCK_N + row + SHARE));
#pragma unroll 1
                for (int panel = 0; panel < PANELS_OF; panel++)
                    tma_load(to[stage][panel][row], &map, &full[stage], panel * 64, key % PAGE_SIZE, tile.kv_head, page);
                page = next;
            }
        }
    }
}
