//$ needs score

__device__ __forceinline__ void await_queries(Consumer &c) {
    barrier_wait(&c.shared.q_full[c.queries.stage()][c.index], c.queries.parity());
    if (c.p.scale < 0) negate_queries(c); //$ if score != custom_score
}
