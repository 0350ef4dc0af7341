//$ needs block_n pair_elements
//$ include "backward/d_params.cuh"
//$ include "backward/gradient_layout.cuh"

//$ if pair_elements == elements_of_batch
// Each pair of a query and a key of a head reads an element of its own. So its gradient is set, where sums would have to be cleared first.
//$ else
// Each pair of a query and a key of a head reads an element that only the same pair of other batches reads. So if one thread takes a pair in
// all batches, it sets the gradient in the first and adds to it in the others, and nothing is cleared.
//$ end

__device__ __forceinline__ const attention_backward_params::param_gradient &gradient_of_elements(const attention_backward_params &params) {
    //$ code elements
}
// The address of a pair's element.
__device__ __forceinline__ float *element_of(const attention_backward_params &params, const Where &at, int q, int k) {
    //$ code element
}
// From a pair's element to that of the next query.
__device__ __forceinline__ long long step_of_query(const attention_backward_params &params) {
    //$ code element_step
}

// True if each pair that exists has an element of its own in memory, and each element has a pair. It may not: a dimension may be repeated,
// or longer than the sequences.
__device__ __forceinline__ bool pairs_have_elements(const attention_backward_params &params) {
    const attention_params &p = params.forward;
    const attention_backward_params::param_gradient &of = gradient_of_elements(params);
    const long long pairs = static_cast<long long>(p.heads) * p.len_q * p.len_kv * p.batch; //$ if pair_elements == elements_of_batch
    const long long pairs = static_cast<long long>(p.heads) * p.len_q * p.len_kv;           //$ else
    return is_contiguous(of) && count_of(of) == pairs;
}

// True if gradients of elements are set. `blocks`: their number, or that of the multiprocessors.
__device__ __forceinline__ bool sets_elements(const attention_backward_params &params, int blocks) {
    //$ if pair_elements == elements_of_batch
    return pairs_have_elements(params);
    //$ else
    // A block then takes all batches of a tile of keys in succession. It must not take much longer than with single tiles.
    const attention_params &p = params.forward;
    const int tiles = p.kv_heads * ((p.len_kv + BLOCK_N - 1) / BLOCK_N);
    const int together = (tiles + blocks - 1) / blocks * p.batch, single = (tiles * p.batch + blocks - 1) / blocks;
    return together <= single + single / 8 && pairs_have_elements(params);
    //$ end
}
