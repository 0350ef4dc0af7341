// Issues S of the next K/V tile and O += P V of this one.
__device__ __forceinline__ void issue_round(Consumer &c) {
    c.issue_scores(c.keys(1));
    c.issue_output();
    pass_turn(c.index);
    c.step++;
}
