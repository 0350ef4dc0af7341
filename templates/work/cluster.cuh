//$ needs block_m cluster share
//$ include "target/sm_90a_cluster.cuh"

// The blocks of a cluster work on a tile of queries together. Each loads a share of every tile of keys, for all of them.

__device__ __forceinline__ int worker() { return blockIdx.x / CLUSTER; }
__device__ __forceinline__ int workers() { return gridDim.x / CLUSTER; }

// Which of the tile's units a consumer has: the blocks take theirs one after the other.
__device__ __forceinline__ int unit_of(int consumer) { return cluster_rank() * (BLOCK_M / 64) + consumer; }

// This block's share of the rows of one panel of a tile of keys, into every block.
template <int ROWS>
__device__ __forceinline__ void load_panel(unsigned short (&to)[ROWS][64], const tensor_map &map, Barrier *full, int column,
                                           int key, const Tile &tile) {
    int first = cluster_rank() * SHARE;
    tma_load_multicast(to[first], &map, full, (1 << CLUSTER) - 1, column, key + first, tile.kv_head, tile.batch);
}

// A stage of keys is given back to the producers of all blocks, when all of a warpgroup's products have read it.
__device__ __forceinline__ void release_keys(Barrier *empty) {
    if (warp_index() % 4 == 0 && threadIdx.x % 32 < CLUSTER)
        barrier_arrive_at(empty, threadIdx.x % 32);
}
