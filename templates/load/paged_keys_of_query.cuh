//$ needs block_n panels k_bytes stages page_size share
//$ include "load/paged.cuh"
//$ include "walk/keys_of_query.cuh"

// Where a tile has no key, the last rows of the sequence are loaded again: no other page is known.
__device__ __forceinline__ int share_of_key(const attention_params &p, int key) {
    return min(key, (p.len_kv - 1) / SHARE * SHARE);
}

// One thread loads the K/V tiles of all Q tiles of a block, STAGES ahead of their use: in shares, each of which lies in one page.
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
            int page = page_of(p, share_of_key(p, i * BLOCK_N)); // asked for before the stage is empty
            barrier_wait(&shared.empty[stage], ring.parity() ^ 1);
            barrier_expect(&shared.full[stage], K_BYTES);
#pragma unroll 1
            for (int row = 0; row < BLOCK_N; row += SHARE) {
                const int key = share_of_key(p, i * BLOCK_N + row);
                const int next = page_of(p, share_of_key(p, i * BLOCK_N + row + SHARE));
#pragma unroll 1
                for (int panel = 0; panel < PANELS; panel++)
                    tma_load(shared.k[stage][panel][row], &given.k_map, &shared.full[stage], panel * 64, key % PAGE_SIZE, tile.kv_head,
                             page);
                page = next;
            }
        }
        if (tile.end >= start.run.end)
            break;
    }
}
