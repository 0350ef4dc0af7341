//$ needs rescale score_bias plain_scores

// S of the prepared tile -> P. `first`: the first K/V tile of the rows.
__device__ __forceinline__ void weigh_tile(Consumer &c, bool first) {
    wgmma_settle(c.s);
    c.scores_done(c.keys(0));
    //$ if rescale == always
    const bool search = true;
    //$ elif plain_scores
    const bool search = c.is_masked(first) || lacks_max(c.rows);
    //$ else
    const bool search = c.search;
    //$ end
    float sum[2];
    c.weigh_scores<true>(c.is_masked(first), first, search, sum);
    c.rows.sum[0] += sum[0], c.rows.sum[1] += sum[1];
    //$ if score_bias == bias_rows
    bias_done(c.score, c.p, c.shared);
    //$ end
}

__device__ __forceinline__ void check_tile(Consumer &c, bool) { publish_weights(c.weights); }
