//$ needs block_m columns_v parts_of_block batch_invariant
//$ include "work/run.cuh"

//$ if batch_invariant == 1
// Parts of Q tiles in the workspace: what a block has of a Q tile that other blocks have parts of, too.
//$ else
// Parts of Q tiles in the workspace: what a block has of a Q tile that other blocks have parts of, too. A block has two at most:
// of the Q tile that its run begins in, and of the one that it ends in.
//$ end
struct Part {
    float o[BLOCK_M][COLUMNS_V]; // O, relative to m and not divided by l
    float2 state[BLOCK_M];       // m and l
};

__device__ __forceinline__ Part *part_of(const attention_params &p, int worker, bool begins_before) {
    return static_cast<Part *>(p.workspace) + PARTS_OF_BLOCK * worker + begins_before;
}
