//$ needs store queries_in bias_stages plain_scores folded

// S of the tile that is prepared -> weights. `first`: of its rows. As long as m stays as it is, the sum shows whether it will
// do. If not, S is multiplied once more, and from then on m follows the maximum. Each way has code of its own, or ptxas would
// not overlap what the usual one does.
__device__ __forceinline__ void weigh_tile(Consumer &c, bool first) {
    wgmma_settle(c.s);
    float sum[2];
    //$ if plain_scores
    const bool search = c.is_masked(first) || c.follow && lacks_max(c.rows); // where rows may not have an m yet
    const bool usual = !search && !c.follow, masked = false;                 // then
    //$ else
    const bool search = c.search, usual = !search && !c.follow, masked = c.is_masked(first);
    //$ end
    if (usual)
        c.weigh_scores<false>(masked, first, false, sum);
    else
        c.weigh_scores<true>(c.is_masked(first), first, search, sum);
    if (usual && !within_range(c.rows, sum)) {
        //$ if queries_in == q_registers and store == direct
        multiply_scores_again(c.s, c.q, c.shared.k[c.keys(0).stage()]);
        //$ else
        multiply_scores_again(c.s, c.shared.q[c.queries.stage()][c.index], c.shared.k[c.keys(0).stage()]);
        //$ end
        fence_async(); // the copy unit writes next to where all lanes have read
        __syncwarp();
        c.follow = true;
        //$ if folded
        c.set_rests(true);
        //$ end
        c.weigh_scores<true>(masked, first, true, sum);
    }
    c.scores_done(c.keys(0));
    //$ if bias_stages > 0
    bias_done(c.score, c.p, c.shared);
    //$ end
    c.rows.sum[0] += sum[0];
    c.rows.sum[1] += sum[1];
}
