//$ needs dtype stages row_tiles rescale bias_stages

// K and V tiles are copied together, STAGES - 1 rounds ahead of their use: one wait and one barrier per round.

// Commits a group of copies even if nothing is left to copy, because the waits count groups.
__device__ __forceinline__ void copy_next(KeyCopies &copies, Shared &shared, int stage) {
    if (copies.walk.left > 0) {
        const int tile_n = copies.next();
        copy_keys(copies, shared.k[stage], tile_n);
        copy_values(copies, shared.v[stage], tile_n);
        copy_bias(copies.p, shared.bias, stage, tile_n); //$ if bias_stages > 0
    }
    copy_async_commit();
}

// Starts the first copies. On return, Q and the first K/V tiles are in flight.
__device__ __forceinline__ void begin_copies(KeyCopies &copies, Shared &shared) {
#pragma unroll 1
    for (int stage = 0; stage < STAGES - 1; stage++)
        copy_next(copies, shared, stage);
}
__device__ __forceinline__ void await_queries() {
    copy_async_wait_groups<STAGES - 2>();
    __syncthreads();
}

__device__ __forceinline__ void go_over_keys(KeyCopies &copies, Shared &shared, UnitRows (&units)[ROW_TILES], const Queries &q) {
    int stage = 0, free = STAGES - 1; // in use; released by the previous round
#pragma unroll 1
    for (State state = BEFORE_TILES; units[0].walk.left > 0;) {
        copy_async_wait_groups<STAGES - 2>();
        __syncthreads(); // K and V have arrived, and all warps have finished with those of the previous round
        copy_next(copies, shared, free);
        free = stage;
        prepare_units(units);
        set_bias(units, shared.bias.rows[stage]); //$ if bias_stages > 0
        //$ if dtype != fp32
        settle_keys(copies, shared.k[stage], units[0].next);
        settle_values(copies, shared.v[stage], units[0].next);
        //$ end
        begin_tile(units, q, shared.k[stage], state);
        //$ if rescale == from_sum
        end_tile(units, q, shared.k[stage], shared.v[stage], state);
        //$ else
        end_tile(units, shared.v[stage], state);
        //$ end
        stage = stage + 1 < STAGES ? stage + 1 : 0;
    }
}
