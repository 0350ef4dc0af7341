//$ needs block_m columns_v
//$ workspace 8 * sm_count * block_m * (columns_v + 2)
//$ include "work/run.cuh"
//$ include "store/part.cuh"

// Parts in the workspace. A block has at most two: one for the Q tile in which its run begins, and one for that in which it ends.
__device__ __forceinline__ Part *part_of(const attention_params &p, int worker, bool begins_before) {
    return static_cast<Part *>(p.workspace) + 2 * worker + begins_before;
}
