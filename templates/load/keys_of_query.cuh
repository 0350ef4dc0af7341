//$ needs block_n panels output_panels stages layout
//$ include "pipeline/panel_of_step.cuh"
//$ include "walk/keys_of_query.cuh"

// One thread loads the K/V tiles of all Q tiles of a block, STAGES ahead of their use. It loads each panel as soon as its slot is empty.
__device__ __forceinline__ void produce_keys(const attention_tma_params &given, Shared &shared, const Start &start) {
    const attention_params &all = given.attention;
    Ring<STAGES> ring = {0};
#pragma unroll 1
    for (Tile tile = start.tile;; tile = next_tile(all, tile)) {
        const attention_params &p = sequence_of(all, tile.batch);
        const KeyWalk walk = walk_of_block(p, start.run, tile);
#pragma unroll 1
        for (int i = walk.tile; i < walk.end; i++, ring.count++) {
            const int stage = ring.stage(), owner = (i - walk.tile) % 2;
#pragma unroll // a TMA operation takes 60 clocks, and the loop would take three times as long
            for (int step = 0; step < PANELS; step++) {
                if (step == 0)
                    barrier_wait(&shared.empty[stage][owner], ring.parity() ^ 1);
                if (step == OUTPUT_PANELS)
                    barrier_wait(&shared.empty[stage][1 - owner], ring.parity() ^ 1);
                const int panel = panel_of_step(step, owner);
                barrier_expect(&shared.full[stage][panel], BLOCK_N * 128);
                //$ if layout == ragged
                tma_load(shared.k[stage][panel], &given.k_map, &shared.full[stage][panel], panel * 64, p.first_kv + i * BLOCK_N,
                         tile.kv_head, 0);
                //$ else
                tma_load(shared.k[stage][panel], &given.k_map, &shared.full[stage][panel], panel * 64, i * BLOCK_N, tile.kv_head,
                         tile.batch);
                //$ end
            }
        }
        if (tile.end >= start.run.end)
            break;
    }
}
