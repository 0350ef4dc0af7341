//$ needs score store

// The buffer of Q is free as soon as Q is in registers. //$ if store == direct
__device__ __forceinline__ void await_queries(Consumer &c) {
    barrier_wait(&c.shared.q_full[c.queries.stage()][c.index], c.queries.parity());
    if (c.p.scale < 0) negate_queries(c); //$ if score != custom_score
    load_queries(c.q, c.shared.q[c.queries.stage()][c.index]);
    //$ if store == direct
    fence_async();
    __syncwarp();
    if (elect_one())
        barrier_arrive(&c.shared.q_empty[c.queries.stage()][c.index]);
    //$ end
}
