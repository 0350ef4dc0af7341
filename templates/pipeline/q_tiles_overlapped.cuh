//$ needs stages skip_per_warpgroup
//$ include "pipeline/keys_ahead.cuh"

// Q tiles overlap: the first S of the next one is computed with the last P V of this one, and is in registers beside its O.
// After the last Q tile that S is computed in vain: ptxas would serialise the MMAs if there were a branch around it.
__device__ __forceinline__ void run(Consumer &c) {
    bool more = c.take_and_skip();
    if (!more)
        return;
    c.await_queries();
    c.issue_scores(c.keys(0));
    c.pingpong_arrive();
#pragma unroll 1
    while (more) {
        go_over_keys(c);
        const Unit unit = c.unit;
        int stage = c.queries.stage();
        c.queries.count++;
        more = c.take();
        c.issue_output();
        Barrier *empty = &c.shared.v_empty[c.values().stage()];
        c.step++;
        //$ if skip_per_warpgroup
        bool early = c.unseen >= STAGES; // the last skipped tile waits for the stage of this one
        if (early) {
            wgmma_wait<0>();
            release_keys(empty);
        }
        c.skip_unseen();
        //$ end
        if (more)
            c.await_queries();
        c.issue_scores(c.keys(more ? 0 : -1));
        c.pingpong_arrive();
        wgmma_wait<1>(); // O is complete, S is not
        wgmma_settle(c.o);
        //$ if skip_per_warpgroup
        if (!early)
            release_keys(empty);
        //$ else
        release_keys(empty);
        //$ end
        finish(c, unit, stage);
    }
    wgmma_wait<0>();
}
