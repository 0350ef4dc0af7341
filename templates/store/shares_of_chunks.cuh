//$ needs chunk_keys block_m one_query combine_threads combine_shares combine_bytes
//$ if one_query
//$ launch attention_combine_runs grid (heads / kv_heads + block_m - 1) / block_m * len_q * kv_heads * batch * max(1, (len_kv + chunk_keys - 1) / chunk_keys - 1) * combine_shares block combine_threads shared combine_bytes dependent params attention_params
//$ else
//$ launch attention_combine_runs grid (len_q * (heads / kv_heads) + block_m - 1) / block_m * kv_heads * batch * max(1, (len_kv + chunk_keys - 1) / chunk_keys - 1) * combine_shares block combine_threads shared combine_bytes dependent params attention_params
//$ end

// (n - 1) * COMBINE_SHARES blocks share a Q tile of n chunks. Every Q tile gets as many blocks as one with the most chunks.
__device__ __forceinline__ int blocks_of_tile(const attention_params &all) { return max(1, chunks_of(all) - 1) * COMBINE_SHARES; }

__device__ __forceinline__ Plan plan_of_shares(const attention_params &all) { return plan_of(all, gridDim.x); }

// Returns the block of the first launch that had the first chunk.
__device__ __forceinline__ int worker_of_share(const attention_params &all) {
    return static_cast<int>(blockIdx.x) / blocks_of_tile(all) * chunks_of(all);
}
__device__ __forceinline__ bool has_run(const Plan &, int) { return true; }

// Returns this block's place among the shares of the Q tile.
__device__ __forceinline__ int place_of_share(const attention_params &all, const Parts &, int) { return blockIdx.x % blocks_of_tile(all); }

// True if there is such a Q tile.
__device__ __forceinline__ bool begins_here(const Plan &, const Start &start, int, int) { return start.run.first < start.run.end; }
