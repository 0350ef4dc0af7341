// No cluster: each Q tile belongs to one thread block.

__device__ __forceinline__ int worker() { return blockIdx.x; }
__device__ __forceinline__ int workers() { return gridDim.x; }

// Synchronises all threads that work on a Q tile.
__device__ __forceinline__ void sync_blocks() {
    __syncthreads();
}

// The unit of a Q tile that a consumer computes.
__device__ __forceinline__ int unit_of(int consumer) { return consumer; }

// Loads one panel of a K/V tile.
template <int ROWS>
__device__ __forceinline__ void load_panel(unsigned short (&to)[ROWS][64], const tensor_map &map, Barrier *full, int column,
                                           int key, const Tile &tile) {
    tma_load(to, &map, full, column, key, tile.kv_head, tile.batch);
}

// Releases a stage of K or V to the producer. One warp does so for the warpgroup, once its wgmmas have read the stage.
__device__ __forceinline__ void release_keys(Barrier *empty) { release(empty); }
