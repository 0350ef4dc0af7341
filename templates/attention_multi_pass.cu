// Attention without a score matrix in memory: scores are cheap, so the kernel computes them twice.
// Loop 1 finds the maximum m and the denominator l of a row; loop 2 recomputes each score and
// adds exp(score - m) / l times the row of V. Nothing of size len_q x len_kv is written.
// LANES lanes hold a row of Q in registers; K is read twice and V once for every query.
//$ require dropout == 0
//$ default threads = 128
//$ tune threads in [32, 64, 128, 256, 512, 1024]
//$ require threads % 32 == 0
//$ let lanes = 8 if head_dim + head_dim_v <= 256 else 16
//$ let rows = threads / lanes
//$ launch attention_multi_pass grid (batch * heads * len_q + rows - 1) / rows block threads shared 0
//$ include "sequence/head.cuh"
//$ require layout == dense
//$ include "expression/formula.cuh" if mask == custom_mask or score == custom_score or sinks > 0
//$ include "walk/keys_seen.cuh"
//$ include "load/slice.cuh"
//$ include "fragment/softmax.cuh"

extern "C" __global__ void __launch_bounds__(THREADS) attention_multi_pass(const __grid_constant__ attention_params p) {
    long long row = static_cast<long long>(blockIdx.x) * ROWS + threadIdx.x / LANES; // (batch, head, query) in one
    if (row >= static_cast<long long>(p.batch) * p.heads * p.len_q)
        return;
    Head head = head_at(p, row / p.len_q);
    int query = static_cast<int>(row % p.len_q);
    //$ if mask == custom_mask or score == custom_score or sinks > 0
    const Where at = where_is(p, row / p.len_q);
    const int position = position_of(p, query);
    //$ end
    const Keys keys = keys_of(p, at, position, position); //$ if mask == custom_mask
    int seen = keys_seen(p, query);                       //$ else
    Slice<HEAD_DIM> q = slice_load<HEAD_DIM>(head.q + query * p.q_row_stride);

    // Loop 1: m = max s, l = sum exp(s - m), with s = scale q.k
    SoftmaxState state = softmax_of(tensor_sinks(p, at.h)); // a sink has weight and no value //$ if sinks > 0
    SoftmaxState state = softmax_of_nothing();                                                //$ else
    //$ if mask == custom_mask
    for (int key = keys.first; key < keys.end; key++) {
        if (!sees(p, at, position, key))
            continue;
    //$ else
    for (int key = 0; key < seen; key++) {
    //$ end
        float score = p.scale * slice_dot(q, slice_load<HEAD_DIM>(head.k + key * p.k_row_stride));
        score = score_of(p, at, position, key, score); //$ if score == custom_score
        state = softmax_join(state, softmax_of(score));
    }

    // Loop 2: o = sum of exp(s - m) / l v
    Slice<HEAD_DIM_V> o = slice_zero<HEAD_DIM_V>();
    //$ if mask == custom_mask
    for (int key = keys.first; key < keys.end; key++) {
        if (!sees(p, at, position, key))
            continue;
    //$ else
    for (int key = 0; key < seen; key++) {
    //$ end
        float score = p.scale * slice_dot(q, slice_load<HEAD_DIM>(head.k + key * p.k_row_stride));
        score = score_of(p, at, position, key, score); //$ if score == custom_score
        float weight = softmax_normalize(softmax_weight(score, state.max), state);
        slice_add(o, 1, weight, slice_load<HEAD_DIM_V>(head.v + key * p.v_row_stride));
    }

    slice_store(head.o + query * p.o_row_stride, o);
    if (head.lse && slice_place(0) == 0)
        head.lse[query] = softmax_lse(state);
}
