// Merges attention over parts of the keys into attention over all of them. Each part has a normalised output
// and lse = log(sum of exp(score)). A part acts as one key with score lse and its output as row of V, so merging
// is attention with the same associative join; a part that saw no key has lse -INFINITY and is neutral.
// LANES lanes share a row; lse_parts are read twice and o_parts once.
//$ default threads = 128
//$ tune threads in [32, 64, 128, 256, 512, 1024]
//$ require threads % 32 == 0
//$ let lanes = 8
//$ let rows = threads / lanes
//$ launch merge grid (batch * heads * len_q + rows - 1) / rows block threads shared 0
//$ include "params/merge.h"
//$ include "load/slice.cuh"
//$ include "fragment/softmax.cuh"

extern "C" __global__ void __launch_bounds__(THREADS) merge(const __grid_constant__ merge_params p) {
    long long row = static_cast<long long>(blockIdx.x) * ROWS + threadIdx.x / LANES; // linear index of (batch, head, query)
    if (row >= static_cast<long long>(p.batch) * p.heads * p.len_q)
        return;
    long long query = row % p.len_q, head = row / p.len_q % p.heads, batch = row / p.len_q / p.heads;
    const Input *o_part = static_cast<const Input *>(p.o_parts) + batch * p.o_parts_batch_stride +
                          head * p.o_parts_head_stride + query * p.o_parts_row_stride;
    const float *lse_part = p.lse_parts + batch * p.lse_parts_batch_stride + head * p.lse_parts_head_stride + query;

    // m = max lse_i, l = sum exp(lse_i - m)
    SoftmaxState state = softmax_of_nothing();
    for (int part = 0; part < p.parts; part++)
        state = softmax_join(state, softmax_of(lse_part[part * p.lse_parts_part_stride]));

    // o = sum of exp(lse_i - m) / l o_i. A part without weight adds nothing, even if its output is NaN or infinite.
    Slice<HEAD_DIM_V> o = slice_zero<HEAD_DIM_V>();
    for (int part = 0; part < p.parts; part++) {
        float score = lse_part[part * p.lse_parts_part_stride];
        float weight = softmax_normalize(softmax_weight(score, state.max), state);
        if (weight != 0)
            slice_add(o, 1, weight, slice_load<HEAD_DIM_V>(o_part + part * p.o_parts_part_stride));
    }

    Output *out = static_cast<Output *>(p.o) + batch * p.o_batch_stride + head * p.o_head_stride;
    slice_store(out + query * p.o_row_stride, o);
    if (p.lse && slice_place(0) == 0)
        p.lse[batch * p.lse_batch_stride + head * p.lse_head_stride + query] = softmax_lse(state);
}
