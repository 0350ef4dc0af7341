//$ needs stages bias_stages

// A consumer skips the K/V tiles of its Q tile that only other consumers see. It visits the last tile first, so it skips those at the
// end before it begins, and those at the start when it takes the next Q tile.

// Takes the next Q tile. False if there is none.
__device__ __forceinline__ bool take(Consumer &c) {
    const Tile tile = c.receive();
    c.unseen = c.queries.count > 0 ? tiles_after(c.p, c.unit.tile, c.unit.index, c.walk) : 0; // of the previous Q tile
    c.begin_tile(tile);
    add_tiles_before(tile, c.walk, c.unseen);
    return tile.query >= 0;
}

// Skips the unseen tiles. Waits for their bytes, too; otherwise a stage could be released one phase early.
__device__ __forceinline__ void skip_unseen(Consumer &c) {
    for (; c.unseen > 0; c.unseen--, c.step++) {
        barrier_wait(&c.shared.k_full[c.keys(0).stage()], c.keys(0).parity());
        barrier_wait(&c.shared.v_full[c.values().stage()], c.values().parity());
        skip_bias(c.score, c.p, c.shared); //$ if bias_stages > 0
        named_barrier_sync(4 + c.index, 128); // otherwise a late warp could miss the phase that it waits for
        release_keys(&c.shared.k_empty[c.keys(0).stage()]);
        release_keys(&c.shared.v_empty[c.values().stage()]);
    }
}

// Takes the next Q tile and skips leading K/V tiles that this warpgroup does not need. False if there is none.
__device__ __forceinline__ bool take_and_skip(Consumer &c) {
    bool more = take(c);
    skip_unseen(c);
    return more;
}

// Skips K/V tiles while the last O += P V is in flight, which reads the stage of V that `empty` belongs to. True if that stage had to be
// released first.
__device__ __forceinline__ bool skip_behind_output(Consumer &c, Barrier *empty) {
    bool early = c.unseen >= STAGES; // the last skipped tile waits for the stage of this one
    if (early) {
        wgmma_wait<0>();
        release_keys(empty);
    }
    skip_unseen(c);
    return early;
}
