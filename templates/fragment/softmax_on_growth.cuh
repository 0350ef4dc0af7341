//$ needs rescale plain_scores

// Scores of the tile that is prepared -> weights. `first`: of its rows.
__device__ __forceinline__ void softmax_on_growth(UnitRows &rows, bool first) {
    float sum[2];
    //$ if rescale == always
    const bool search = true;
    //$ elif plain_scores
    const bool search = rows.is_masked(first) || lacks_max(rows.rows);
    //$ else
    const bool search = rows.search;
    //$ end
    rows.online_softmax<true>(rows.is_masked(first), first, search, sum);
    rows.rows.sum[0] += sum[0];
    rows.rows.sum[1] += sum[1];
}
