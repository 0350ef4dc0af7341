//$ include "pipeline/issue_round.cuh"

// The main loop of a Q tile. The caller has issued the first S and issues the last P V. The first K/V tile, which has no O to wait
// for, is not peeled: the code from S to P is long and should exist only once.
__device__ __forceinline__ void go_over_keys(Consumer &c) {
    c.begin_rows();
    wgmma_wait<0>();
    c.begin_output();
    const int tiles = c.walk.left;
#pragma unroll 1
    while (true) {
        const bool first = c.walk.left == tiles;
        c.prepare();
        wgmma_wait<1>(); // S is complete, O is not
        softmax_tile(c, first);
        wgmma_wait<0>();
        if (first)
            wgmma_settle(c.o);
        else
            c.output_done(c.values(-1));
        rescale(c.o, c.rows);
        keep_weights(c.s, c.weights);
        accumulate_row_sum(c, first);
        publish_weights(c.weights);
        if (c.walk.left == 0)
            break;
        issue_round(c);
    }
}
