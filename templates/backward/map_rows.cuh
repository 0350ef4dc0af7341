//$ needs layout
//$ include "params/attention.h"

// Where a row of a sequence is in a tensor map, which covers all sequences.
//$ if layout == ragged
// Sequences of packed tensors follow one another. A tile reaches into the next sequence, whose rows have no weight.
__device__ __forceinline__ int map_query(const attention_params &p, int query) { return p.first_q + query; }
__device__ __forceinline__ int map_key(const attention_params &p, int key) { return p.first_kv + key; }
__device__ __forceinline__ int map_batch(int) { return 0; }
//$ else
__device__ __forceinline__ int map_query(const attention_params &, int query) { return query; }
__device__ __forceinline__ int map_key(const attention_params &, int key) { return key; }
__device__ __forceinline__ int map_batch(int batch) { return batch; }
//$ end
