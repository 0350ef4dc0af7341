//$ needs dtype row_tiles rescale bias_stages

// One buffer for K and one for V: V is copied while S is computed, the next K during the softmax and O += P V.

// Starts the first copies. On return, Q and the first K tile are in flight.
__device__ __forceinline__ void begin_copies(KeyCopies &copies, Shared &shared) {
    copy_keys(copies, shared.k[0], copies.next());
}
__device__ __forceinline__ void await_queries() {
    copy_async_wait();
    __syncthreads();
}

__device__ __forceinline__ void go_over_keys(KeyCopies &copies, Shared &shared, UnitRows (&units)[ROW_TILES], const Queries &q) {
#pragma unroll 1
    for (State state = BEFORE_TILES; units[0].walk.left > 0;) {
        copy_async_wait();
        __syncthreads(); // K has arrived, and all warps have finished with V
        prepare_units(units);
        copy_values(copies, shared.v[0], units[0].next);
        //$ if bias_stages > 0
        copy_bias(copies.p, shared.bias, 0, units[0].next);
        set_bias(units, shared.bias.rows[0]);
        //$ end
        settle_keys(copies, shared.k[0], units[0].next); //$ if dtype != fp32
        begin_tile(units, q, shared.k[0], state);
        copy_async_wait();
        __syncthreads(); // V has arrived, and all warps have finished with K
        settle_values(copies, shared.v[0], units[0].next); //$ if dtype != fp32
        if (units[0].walk.left > 0) {
            KeyWalk walk = units[0].walk; // all units visit the same tiles, so the copies need no walk of their own
            copy_keys(copies, shared.k[0], next_keys(copies.p, copies.tile, units[0].unit.index, walk));
        }
        //$ if rescale == from_sum
        end_tile(units, q, shared.k[0], shared.v[0], state);
        //$ else
        end_tile(units, shared.v[0], state);
        //$ end
    }
}
