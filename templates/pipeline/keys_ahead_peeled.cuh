//$ include "pipeline/issue_round.cuh"

// The main loop of a Q tile. The caller has issued the first S and issues the last P V. The first K/V tile is peeled, because it has
// no O yet.
__device__ __forceinline__ void go_over_keys(Consumer &c) {
    c.begin_rows();
    wgmma_wait<0>();
    c.prepare();
    softmax_tile(c, true);
    keep_weights(c.s, c.weights);
    c.begin_output();
    accumulate_row_sum(c, true);
    publish_weights(c.weights);
#pragma unroll 1
    while (c.walk.left > 0) {
        issue_round(c);
        c.prepare();
        wgmma_wait<1>(); // S is complete, O is not
        softmax_tile(c, false);
        wgmma_wait<0>();
        c.output_done(c.values(-1));
        rescale(c.o, c.rows);
        keep_weights(c.s, c.weights);
        accumulate_row_sum(c, false);
        publish_weights(c.weights);
    }
}
