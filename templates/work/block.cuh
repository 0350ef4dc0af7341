// One thread block works on a tile of queries by itself.

__device__ __forceinline__ int worker() { return blockIdx.x; }
__device__ __forceinline__ int workers() { return gridDim.x; }

// Which of the tile's units a consumer has.
__device__ __forceinline__ int unit_of(int consumer) { return consumer; }

// One panel of a tile of keys.
template <int ROWS>
__device__ __forceinline__ void load_panel(unsigned short (&to)[ROWS][64], const tensor_map &map, Barrier *full, int column,
                                           int key, const Tile &tile) {
    tma_load(to, &map, full, column, key, tile.kv_head, tile.batch);
}

// A stage of keys is given back to the producer, when all of a warpgroup's products have read it.
__device__ __forceinline__ void release_keys(Barrier *empty) { release(empty); }
