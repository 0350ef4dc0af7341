//$ needs block_m columns_v chunk_keys one_query
//$ if one_query
//$ workspace (heads / kv_heads + block_m - 1) / block_m * len_q * kv_heads * batch * max(1, (len_kv + chunk_keys - 1) / chunk_keys) * 4 * block_m * (columns_v + 2)
//$ else
//$ workspace (len_q * (heads / kv_heads) + block_m - 1) / block_m * kv_heads * batch * max(1, (len_kv + chunk_keys - 1) / chunk_keys) * 4 * block_m * (columns_v + 2)
//$ end
//$ include "work/run.cuh"
//$ include "store/part.cuh"

// Parts in the workspace: one per block, for its chunk.
__device__ __forceinline__ Part *part_of(const attention_params &p, int worker, bool) {
    return static_cast<Part *>(p.workspace) + worker;
}
