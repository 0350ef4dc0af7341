//$ needs block_n units layout changes_sequence

// Returns the place of a tile in the packed tensors, which have no batch.
__device__ __forceinline__ Tile packed(const Tile &tile) { return {tile.query, tile.head, tile.kv_head, 0}; }

// One thread loads K, another loads V. Each has one tensor and one ring of stages.
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
            barrier_wait(&empty[stage], ring.parity() ^ 1);
            barrier_expect(&full[stage], PANELS_OF * BLOCK_N * 128);
#pragma unroll 1
            for (int panel = 0; panel < PANELS_OF; panel++)
                load_panel(to[stage][panel], map, &full[stage], panel * 64, p.first_kv + i * BLOCK_N, packed(tile)); //$ if layout == ragged
                load_panel(to[stage][panel], map, &full[stage], panel * 64, i * BLOCK_N, tile);                      //$ else
        }
    }
}
