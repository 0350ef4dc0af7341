//$ needs block_n panels output_panels stages page_size share
//$ include "load/paged.cuh"
//$ include "pipeline/panel_of_step.cuh"
//$ include "walk/keys_of_query.cuh"

// Returns the first key of a share. Past the end of the sequence, its last rows are loaded again: no other page is known.
__device__ __forceinline__ int share_of_key(const attention_params &p, int key) {
    return min(key, (p.len_kv - 1) / SHARE * SHARE);
}

constexpr int SHARES = BLOCK_N / SHARE; // shares of a K/V tile, each of which lies in one page

// One thread loads the K/V tiles of all Q tiles of a block, STAGES ahead of their use. It loads each panel as soon
// as its slot is empty, share by share.
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
            int pages[SHARES];
#pragma unroll
            for (int j = 0; j < SHARES; j++) // requested before the stage is empty
                pages[j] = page_of(p, share_of_key(p, i * BLOCK_N + j * SHARE));
#pragma unroll // a TMA operation takes 60 clocks, and the loop would take three times as long
            for (int step = 0; step < PANELS; step++) {
                if (step == 0)
                    barrier_wait(&shared.empty[stage][owner], ring.parity() ^ 1);
                if (step == OUTPUT_PANELS)
                    barrier_wait(&shared.empty[stage][1 - owner], ring.parity() ^ 1);
                const int panel = panel_of_step(step, owner);
                barrier_expect(&shared.full[stage][panel], BLOCK_N * 128);
#pragma unroll
                for (int j = 0; j < SHARES; j++)
                    tma_load(shared.k[stage][panel][j * SHARE], &given.k_map, &shared.full[stage][panel], panel * 64,
                             share_of_key(p, i * BLOCK_N + j * SHARE) % PAGE_SIZE, tile.kv_head, pages[j]);
            }
        }
        if (tile.end >= start.run.end)
            break;
    }
}
