//$ needs plain_scores

// S of the tile of keys ahead and O += P V of this one, both at once.
__device__ __forceinline__ void issue_round(Consumer &c) {
    c.issue_scores(c.keys(1));
    c.issue_output();
    c.end_turn();
    c.step++;
}
//$ if plain_scores

// From the first S of a tile of queries, issued, to all but the last P V. The first tile of keys by itself: there is no O yet.
__device__ __forceinline__ void go_over_keys(Consumer &c) {
    c.begin_rows();
    wgmma_wait<0>();
    c.prepare();
    weigh_tile(c, true);
    keep_weights(c.s, c.weights);
    c.begin_output();
    check_tile(c, true);
#pragma unroll 1
    while (c.walk.left > 0) {
        issue_round(c);
        c.prepare();
        wgmma_wait<1>(); // S is there, O is not
        weigh_tile(c, false);
        wgmma_wait<0>();
        c.output_done(c.values(-1));
        rescale(c.o, c.rows);
        keep_weights(c.s, c.weights);
        check_tile(c, false);
    }
}
//$ else

// From the first S of a tile of queries, issued, to all but the last P V. One loop for all tiles of keys: the first has no O to
// wait for, but what makes weights of S is long.
__device__ __forceinline__ void go_over_keys(Consumer &c) {
    c.begin_rows();
    wgmma_wait<0>();
    c.begin_output();
    const int tiles = c.walk.left;
#pragma unroll 1
    while (true) {
        const bool first = c.walk.left == tiles;
        c.prepare();
        wgmma_wait<1>(); // S is there, O is not
        weigh_tile(c, first);
        wgmma_wait<0>();
        if (first)
            wgmma_settle(c.o);
        else
            c.output_done(c.values(-1));
        rescale(c.o, c.rows);
        keep_weights(c.s, c.weights);
        check_tile(c, first);
        if (c.walk.left == 0)
            break;
        issue_round(c);
    }
}
//$ end
