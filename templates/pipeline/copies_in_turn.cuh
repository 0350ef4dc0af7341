//$ needs row_tiles
//$ include "pipeline/softmax_of_units.cuh"

// One place for K and one for V: V comes in while S is multiplied, the next K during the softmax and O += P V.

// What was copied first, Q and the first tile of K, is on its way.
__device__ __forceinline__ void begin_copies(KeyCopies &copies, Shared &shared) {
    copies.copy_keys(shared.k[0], copies.next());
}
__device__ __forceinline__ void await_queries() {
    copy_async_wait();
    __syncthreads();
}

__device__ __forceinline__ void go_over_keys(KeyCopies &copies, Shared &shared, UnitRows (&units)[ROW_TILES], const Queries &q) {
#pragma unroll 1
    for (bool first = true; units[0].walk.left > 0; first = false) {
        copy_async_wait();
        __syncthreads(); // K has come, and all warps are done with V
        prepare_units(units);
        copies.copy_values(shared.v[0], units[0].next);
        multiply_scores(units, q, shared.k[0]);
        copy_async_wait();
        __syncthreads(); // V has come, and all warps are done with K
        if (units[0].walk.left > 0)
            copies.copy_keys(shared.k[0], copies.next());
        Weights p[ROW_TILES];
        weigh_units(units, p, first);
        multiply_output(units, p, shared.v[0]);
    }
}
