//$ needs rescale plain_scores

// Scores of the prepared tile -> weights. `first`: the first K/V tile of the rows.
__device__ __forceinline__ void softmax_on_growth(UnitRows &rows, bool first) {
    float sum[2];
    const bool search = true;                                          //$ if rescale == always
    const bool search = rows.is_masked(first) || lacks_max(rows.rows); //$ elif plain_scores
    const bool search = rows.search;                                   //$ else
    rows.online_softmax<true>(rows.is_masked(first), first, search, sum);
    rows.rows.sum[0] += sum[0];
    rows.rows.sum[1] += sum[1];
}
