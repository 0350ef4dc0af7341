//$ needs combine_threads combine_shares combine_bytes
//$ launch attention_combine_runs grid sm_count * combine_shares block combine_threads shared combine_bytes dependent params attention_params

// (n - 1) * COMBINE_SHARES blocks share a Q tile of n parts: COMBINE_SHARES for each run that begins within it.
__device__ __forceinline__ Plan plan_of_shares(const attention_params &all) { return plan_of(all, gridDim.x / COMBINE_SHARES); }

// Returns the block of the first launch that has the run.
__device__ __forceinline__ int worker_of_share(const attention_params &) { return blockIdx.x / COMBINE_SHARES; }
__device__ __forceinline__ bool has_run(const Plan &plan, int worker) { return worker < plan.workers; }

// Returns this block's place among the shares of the Q tile.
__device__ __forceinline__ int place_of_share(const attention_params &, const Parts &parts, int worker) {
    return (worker - parts.first - 1) * COMBINE_SHARES + static_cast<int>(blockIdx.x % COMBINE_SHARES);
}

// True if the run begins within the Q tile.
__device__ __forceinline__ bool begins_here(const Plan &plan, const Start &, int worker, int place) {
    return worker < plan.workers && place >= 0;
}
