//$ include "expression/formula.cuh"

// What the mask reads from tensors for a query, and for a key. Each lane loads it for some queries of a step, and shuffles hand it on: so all
// loads are in flight together, and few instructions compute addresses.
struct QueryReads {
    //$ code query_fields
};
struct KeyReads {
    //$ code key_fields
};

__device__ __forceinline__ QueryReads reads_of_query(const attention_params &p, const Where &at, int q) {
    //$ code query_values
}
__device__ __forceinline__ KeyReads reads_of_key(const attention_params &p, const Where &at, int k) {
    //$ code key_values
}
// Returns what a lane has. The warp must be converged.
__device__ __forceinline__ QueryReads reads_of_lane(const QueryReads &mine, int lane) {
    //$ code query_of_lane
}

// True if the query sees the key.
__device__ __forceinline__ bool sees_by_reads(const attention_params &p, const Where &at, int q, int k, const QueryReads &of_query,
                                              const KeyReads &of_key) {
    //$ code mask_of_reads
}
