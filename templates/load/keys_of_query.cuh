//$ needs block_n panels k_bytes stages layout
//$ include "walk/keys_of_query.cuh"

// One thread loads the K/V tiles of all Q tiles of a block, STAGES ahead of their use.
__device__ __forceinline__ void produce_keys(const attention_tma_params &given, Shared &shared, const Start &start) {
    const attention_params &all = given.attention;
    Ring<STAGES> ring = {0};
#pragma unroll 1
    for (Tile tile = start.tile;; tile = next_tile(all, tile)) {
        const attention_params &p = sequence_of(all, tile.batch);
        const KeyWalk walk = walk_of_block(p, start.run, tile);
#pragma unroll 1
        for (int i = walk.tile; i < walk.end; i++, ring.count++) {
            const int stage = ring.stage();
            barrier_wait(&shared.empty[stage], ring.parity() ^ 1);
            barrier_expect(&shared.full[stage], K_BYTES);
#pragma unroll 1
            for (int panel = 0; panel < PANELS; panel++)
                //$ if layout == ragged
                tma_load(shared.k[stage][panel], &given.k_map, &shared.full[stage], panel * 64, p.first_kv + i * BLOCK_N,
                         tile.kv_head, 0);
            //$ else
                tma_load(shared.k[stage][panel], &given.k_map, &shared.full[stage], panel * 64, i * BLOCK_N, tile.kv_head, tile.batch);
            //$ end
        }
        if (tile.end >= start.run.end)
            break;
    }
}
