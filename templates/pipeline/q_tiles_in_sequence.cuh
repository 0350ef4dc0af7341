// Q tiles one after the other; the tensor cores are idle in between.
__device__ __forceinline__ void run(Consumer &c) {
    while (take_and_skip(c)) {
        await_queries(c);
        c.issue_scores(c.keys(0));
        pass_turn(c.index);
        go_over_keys(c);
        c.issue_output();
        wgmma_wait<0>();
        c.output_done(c.values());
        finish(c, c.unit, c.queries.stage());
        c.step++, c.queries.count++;
    }
}
