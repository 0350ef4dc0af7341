// Attention without a score matrix in memory: scores are cheap, so the kernel computes them twice.
// Loop 1 finds the maximum m and the denominator l of a row; loop 2 recomputes each score and
// adds exp(score - m) / l times the row of V. Nothing of size len_q x len_kv is written.
// LANES lanes hold a row of Q in registers; K is read twice and V once for every query.
//$ require layout == dense
//$ require dropout == 0
//$ default threads = 128
//$ tune threads in [32, 64, 128, 256, 512, 1024]
//$ require threads % 32 == 0
//$ let lanes = 8 if head_dim + head_dim_v <= 256 else 16
//$ let rows = threads / lanes
//$ let expressions = mask == custom_mask or score == custom_score or sinks > 0
//$ launch attention_multi_pass grid (batch * heads * len_q + rows - 1) / rows block threads shared 0
//$ include "sequence/head.cuh"
//$ include "load/key_rows.cuh"
//$ include "expression/formula.cuh" if expressions
//$ include "walk/seen_by_query.cuh" if mask != custom_mask
//$ include "load/slice.cuh"
//$ include "fragment/softmax.cuh"

extern "C" __global__ void __launch_bounds__(THREADS) attention_multi_pass(const __grid_constant__ attention_params p) {
    const long long row = static_cast<long long>(blockIdx.x) * ROWS + threadIdx.x / LANES; // linear index of (batch, head, query)
    if (row >= static_cast<long long>(p.batch) * p.heads * p.len_q)
        return;
    const long long index = row / p.len_q; // batch * heads + head
    const int query = static_cast<int>(row % p.len_q);
    const Head head = head_at(p, index);
    const Where at = where_is(p, index);        //$ if expressions
    const int position = position_of(p, query); //$ if expressions
    const Keys keys = keys_of(p, at, position, position); //$ if mask == custom_mask
    const Keys keys = keys_of(p, query);                  //$ else
    const Slice<HEAD_DIM> q = slice_load<HEAD_DIM>(head.q + query * p.q_row_stride);

    // Loop 1: m = max s, l = sum exp(s - m), with s = scale q.k
    SoftmaxState state = softmax_of(tensor_sinks(p, at.h)); // a sink has weight and no value //$ if sinks > 0
    SoftmaxState state = softmax_of_nothing();                                                //$ else
    for (int key = keys.first; key < keys.end; key++) {
        if (!sees(p, at, position, key)) continue; //$ if mask == custom_mask
        float s = p.scale * slice_dot(q, slice_load<HEAD_DIM>(key_row(p, head, key)));
        s = score_of(p, at, position, key, s); //$ if score == custom_score
        state = softmax_join(state, softmax_of(s));
    }

    // Loop 2: o = sum of exp(s - m) / l v
    Slice<HEAD_DIM_V> o = slice_zero<HEAD_DIM_V>();
    for (int key = keys.first; key < keys.end; key++) {
        if (!sees(p, at, position, key)) continue; //$ if mask == custom_mask
        float s = p.scale * slice_dot(q, slice_load<HEAD_DIM>(key_row(p, head, key)));
        s = score_of(p, at, position, key, s); //$ if score == custom_score
        const float weight = softmax_normalize(softmax_weight(s, state.max), state);
        slice_add(o, 1, weight, slice_load<HEAD_DIM_V>(value_row(p, head, key)));
    }

    slice_store(head.o + query * p.o_row_stride, o);
    if (head.lse && slice_place(0) == 0)
        head.lse[query] = softmax_lse(state);
}
