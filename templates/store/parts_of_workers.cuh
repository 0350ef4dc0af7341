//$ needs block_m columns_v warps apart_q_tiles
//$ let border_bytes = 32
//$ note The maximum number of workers in a block: its warps, if there can be enough Q tiles for that.
//$ workspace sm_count * (1 + min(1, (len_q * (heads / kv_heads) + block_m - 1) / block_m * kv_heads * batch / (apart_q_tiles * sm_count)) * (warps - 1)) * (border_bytes + 8 * block_m * (columns_v + 2))
//$ include "work/run.cuh"
//$ include "store/part.cuh"

// The workspace holds the parts of each worker, a block or a warp that has a run. A worker has at most two: one for
// the Q tile in which its run begins, and one for that in which it ends.

// A Q tile to combine. The first worker whose run begins within it records it; the worker before has the first part.
struct Border {
    int batch, kv_head, row;
    int parts; // 2 count + begins_before; 0: there is nothing to combine
};

struct WorkerParts {
    Part part[2];
    int4 border[2]; // a Border, and padding, so that rows of O begin at a sector of memory
};
static_assert(sizeof(WorkerParts) == 2 * sizeof(Part) + BORDER_BYTES, "as in the workspace directive");

__device__ __forceinline__ WorkerParts &parts_of_worker(const attention_params &p, int worker) {
    return static_cast<WorkerParts *>(p.workspace)[worker];
}
__device__ __forceinline__ Part *part_of(const attention_params &p, int worker, bool begins_before) {
    return &parts_of_worker(p, worker).part[begins_before];
}

// Returns this warp's place among all warps of the launch. A few long runs are on different multiprocessors.
__device__ __forceinline__ int place_of_warp() { return warp_index() * gridDim.x + blockIdx.x; }
// True if there is room for the place: for one worker per warp where there can be enough Q tiles for that, else for one per block.
__device__ __forceinline__ bool has_place(const attention_params &all, int place) {
    const int blocks = gridDim.x, row_tiles = (rows_of_group(all) + BLOCK_M - 1) / BLOCK_M;
    return place < blocks || row_tiles * all.kv_heads * all.batch >= APART_Q_TILES * blocks;
}
__device__ __forceinline__ void leave_no_border(const attention_params &all, int place) {
    if (threadIdx.x % 32 == 0 && has_place(all, place))
        parts_of_worker(all, place).border[0] = make_int4(0, 0, 0, 0);
}
__device__ __forceinline__ void leave_border(const attention_params &all, const Plan &plan, const Start &start, int worker) {
    const Tile &tile = start.tile;
    const Parts parts = parts_of(plan, start, worker);
    if (parts.first != worker - 1)
        leave_no_border(all, worker);
    else if (threadIdx.x % 32 == 0)
        parts_of_worker(all, worker).border[0] =
            make_int4(tile.batch, tile.kv_head, tile.row, 2 * parts.count + parts.begins_before);
}
// To be called by every warp, for its place: either the block has one run, or each of its warps has one.
__device__ __forceinline__ void leave_borders(const attention_params &all, const Plan &plan, const Start &start, int worker,
                                              int place) {
    if (worker == place)
        leave_border(all, plan, start, worker);
    else
        leave_no_border(all, place);
}
__device__ __forceinline__ Border border_of(const attention_params &all, int worker) {
    const int4 border = parts_of_worker(all, worker).border[0];
    return {border.x, border.y, border.z, border.w};
}
