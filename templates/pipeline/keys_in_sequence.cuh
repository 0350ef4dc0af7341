// For each K/V tile: S, softmax, O += P V, without overlap within the warpgroup.
__device__ __forceinline__ void run(Consumer &c) {
    while (take_and_skip(c)) {
        await_queries(c);
        c.begin_rows();
        c.begin_output();
#pragma unroll 1
        for (bool first = true; c.walk.left > 0; first = false, c.step++) {
            c.issue_scores(c.keys(0));
            c.prepare();
            wgmma_wait<0>();
            pass_turn(c.index);
            softmax_tile(c, first);
            rescale(c.o, c.rows);
            keep_weights(c.s, c.weights);
            accumulate_row_sum(c, first);
            publish_weights(c.weights);
            c.issue_output();
            wgmma_wait<0>();
            c.output_done(c.values());
        }
        finish(c, c.unit, c.queries.stage());
        c.queries.count++;
    }
}
