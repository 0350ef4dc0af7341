//$ needs skip_per_warpgroup changes_sequence mask score

// Q tiles overlap: the first S of the next one is computed together with the last P V of this one, and is in registers beside its O.
// After the last Q tile, this S is computed but not used: ptxas would serialise the MMAs if there were a branch around it.
__device__ __forceinline__ void run(Consumer &c) {
    bool more = take_and_skip(c);
    if (!more)
        return;
    await_queries(c);
    c.issue_scores(c.keys(0));
    pass_turn(c.index);
#pragma unroll 1
    while (more) {
        go_over_keys(c);
        //$ if changes_sequence
        const attention_params own = c.own; // of this Q tile
        Unit unit = {own, c.unit.index, c.unit.lane, c.unit.tile};
        unit.where = c.unit.where; //$ if mask == custom_mask or score == custom_score
        //$ else
        const Unit unit = c.unit;
        //$ end
        int stage = c.queries.stage();
        c.queries.count++;
        more = take(c);
        c.issue_output();
        Barrier *empty = &c.shared.v_empty[c.values().stage()];
        c.step++;
        const bool released = skip_behind_output(c, empty); //$ if skip_per_warpgroup
        if (more)
            await_queries(c);
        c.issue_scores(c.keys(more ? 0 : -1));
        pass_turn(c.index);
        wgmma_wait<1>(); // O is complete, S is not
        wgmma_settle(c.o);
        if (!released) release_keys(empty); //$ if skip_per_warpgroup
        release_keys(empty);                //$ else
        finish(c, unit, stage);
    }
    wgmma_wait<0>();
}
