//$ needs layout
//$ include "params/attention_backward.h"
//$ if layout == dense

// All sequences have one length, so the parameters of a kernel hold for the block's sequence.
template <typename Shared> __device__ __forceinline__ const attention_params &own_sequence(const attention_params &all, const Shared &) {
    return all;
}
// The same with its tensors.
__device__ __forceinline__ const attention_backward_params &tensors_of_queries(const attention_backward_params &all, int) { return all; }
__device__ __forceinline__ const attention_backward_params &tensors_of_keys(const attention_backward_params &all, int) { return all; }
//$ else

// Lengths and start of the block's sequence. They are in shared memory and are read anew for every tile, because the warp roles have no
// registers left to keep them.
struct alignas(16) Sequence {
    int len_q, len_kv;
    int first_q, first_kv; //$ if layout == ragged
};

__device__ __forceinline__ Sequence numbers_of(const attention_params &own) {
    return {own.len_q, own.len_kv, own.first_q, own.first_kv}; //$ if layout == ragged
    return {own.len_q, own.len_kv};                            //$ else
}

// Turns the parameters of all sequences into those of the block's sequence, except for its tensors.
template <typename Shared> __device__ __forceinline__ attention_params own_sequence(const attention_params &all, const Shared &shared) {
    attention_params p = all;
    p.len_q = shared.sequence.len_q;
    p.len_kv = shared.sequence.len_kv;
    //$ if layout == ragged
    p.first_q = shared.sequence.first_q;
    p.first_kv = shared.sequence.first_kv;
    //$ end
    return p;
}
// The same with its tensors. index = batch * heads + head, kv_index = batch * kv_heads + kv_head
__device__ __forceinline__ attention_backward_params tensors_of_queries(const attention_backward_params &all, int index) {
    return sequence_of(all, index / all.forward.heads);
}
__device__ __forceinline__ attention_backward_params tensors_of_keys(const attention_backward_params &all, int kv_index) {
    return sequence_of(all, kv_index / all.forward.kv_heads);
}
//$ end
