//$ needs block_m cluster share
//$ include "target/sm_90a_cluster.cuh"

// The blocks of a cluster share a Q tile. Each loads its share of every K/V tile and multicasts it to all of them.

__device__ __forceinline__ int worker() { return blockIdx.x / CLUSTER; }
__device__ __forceinline__ int workers() { return gridDim.x / CLUSTER; }

// Synchronises all threads that work on a Q tile.
__device__ __forceinline__ void sync_blocks() {
    __syncwarp();
    cluster_arrive();
    cluster_wait();
}

// The unit of a Q tile that a consumer computes: units are numbered block after block.
__device__ __forceinline__ int unit_of(int consumer) { return cluster_rank() * (BLOCK_M / 64) + consumer; }

// Loads this block's share of the rows of one panel of a K/V tile into every block.
template <int ROWS>
__device__ __forceinline__ void load_panel(unsigned short (&to)[ROWS][64], const tensor_map &map, Barrier *full, int column,
                                           int key, const Tile &tile) {
    int first = cluster_rank() * SHARE;
    tma_load_multicast(to[first], &map, full, (1 << CLUSTER) - 1, column, key + first, tile.kv_head, tile.batch);
}

// Releases a stage of K or V to the producers of all blocks. One warp does so for the warpgroup, once its wgmmas have read the stage.
__device__ __forceinline__ void release_keys(Barrier *empty) {
    if (warp_index() % 4 == 0 && threadIdx.x % 32 < CLUSTER)
        barrier_arrive_at(empty, threadIdx.x % 32);
}
