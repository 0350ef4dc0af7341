//$ needs store q_in score_bias plain_scores folded

// S of the prepared tile -> P. `first`: the first K/V tile of the rows. While m is fixed, the row sum shows whether P is in range.
// If it is not, S is recomputed, and m follows the maximum from then on. Each path has its own code: ptxas would not overlap the
// usual one otherwise.
__device__ __forceinline__ void weigh_tile(Consumer &c, bool first) {
    wgmma_settle(c.s);
    float sum[2];
    //$ if plain_scores
    const bool search = c.is_masked(first) || c.follow && lacks_max(c.rows); // some rows may have no m yet
    const bool usual = !search && !c.follow, masked = false; // no mask on the usual path
    //$ else
    const bool search = c.search, usual = !search && !c.follow, masked = c.is_masked(first);
    //$ end
    if (usual)
        c.weigh_scores<false>(masked, first, false, sum);
    else
        c.weigh_scores<true>(c.is_masked(first), first, search, sum);
    if (usual && !within_range(c.rows, sum)) {
        //$ if q_in == q_registers and store == direct
        multiply_scores_again(c.s, c.q, c.shared.k[c.keys(0).stage()]);
        //$ else
        multiply_scores_again(c.s, c.shared.q[c.queries.stage()][c.index], c.shared.k[c.keys(0).stage()]);
        //$ end
        fence_async(); // TMA overwrites next what all lanes have read
        __syncwarp();
        c.follow = true;
        //$ if folded
        c.set_rests(true);
        //$ end
        c.weigh_scores<true>(masked, first, true, sum);
    }
    c.scores_done(c.keys(0));
    //$ if score_bias == bias_rows
    bias_done(c.score, c.p, c.shared);
    //$ end
    c.rows.sum[0] += sum[0];
    c.rows.sum[1] += sum[1];
}
