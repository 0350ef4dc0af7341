// Attention in one loop, one key at a time. The kernel accumulates the output before it knows the final maximum: with the running
// maximum m, o is sum exp(s - m) v, and when m grows to m', o and the denominator are multiplied by exp(m - m').
// The division by l comes at the end: one per row instead of one per key.
// LANES lanes hold a row of Q and of O in registers; K and V are read once for every query.
//$ default threads = 128
//$ tune threads in [32, 64, 128, 256, 512, 1024]
//$ require threads % 32 == 0
//$ let lanes = 8 if head_dim + head_dim_v <= 256 else 16 if head_dim + head_dim_v <= 512 else 32
//$ let rows = threads / lanes
//$ let expressions = mask == custom_mask or score == custom_score or sinks > 0
//$ launch attention_flash grid (batch * heads * len_q + rows - 1) / rows block threads shared 0
//$ include "sequence/head.cuh"
//$ include "sequence/input_kv.cuh"
//$ include "sequence/$layout.cuh"
//$ include "load/paged_key_rows.cuh" if page_size > 0 else "load/key_rows.cuh"
//$ include "expression/formula.cuh" if expressions
//$ include "walk/seen_by_query.cuh" if mask != custom_mask
//$ include "load/slice.cuh"
//$ include "fragment/softmax.cuh"
//$ include "fragment/dropout.cuh" if dropout == 1

extern "C" __global__ void __launch_bounds__(THREADS) attention_flash(const __grid_constant__ attention_params all) {
    const long long row = static_cast<long long>(blockIdx.x) * ROWS + threadIdx.x / LANES; // linear index of (batch, head, query)
    if (row >= static_cast<long long>(all.batch) * all.heads * all.len_q)
        return;
    const long long index = row / all.len_q; // batch * heads + head
    const int query = static_cast<int>(row % all.len_q);
    const attention_params &p = sequence_of(all, static_cast<int>(index / all.heads));
    if (query >= p.len_q) return; // this sequence has fewer queries //$ if layout == ragged
    const Head head = head_at(p, index);
    const Where at = where_is(p, index);        //$ if expressions
    const int position = position_of(p, query); //$ if expressions
    const Keys keys = keys_of(p, at, position, position); //$ if mask == custom_mask
    const Keys keys = keys_of(p, query);                  //$ else
    const Slice<HEAD_DIM> q = slice_load<HEAD_DIM>(head.q + query * p.q_row_stride);

    const Dropout dropout = dropout_of(p, index); //$ if dropout == 1
    SoftmaxState state = softmax_of(tensor_sinks(p, at.h)); // a sink has weight and no value //$ if sinks > 0
    SoftmaxState state = softmax_of_nothing();                                                //$ else
    Slice<HEAD_DIM_V> o = slice_zero<HEAD_DIM_V>();
    for (int key = keys.first; key < keys.end; key++) {
        if (!sees(p, at, position, key)) continue; //$ if mask == custom_mask
        // s = scale q.k
        float s = p.scale * slice_dot(q, slice_load<HEAD_DIM>(key_row(p, head, key)));
        s *= key_scale(p, head, key);          //$ if kv_scale != none
        s = score_of(p, at, position, key, s); //$ if score == custom_score

        // m' = max(m, s),  keep = exp(m - m'),  weight = exp(s - m')
        const float max = fmaxf(state.max, s);
        const float keep = softmax_weight(state.max, max);
        float weight = softmax_weight(s, max);

        // l = l keep + weight,  o = o keep + weight v
        state = {max, state.sum * keep + weight};
        weight *= value_scale(p, head, key);                                        //$ if kv_scale != none
        weight = keeps_pair(dropout, query, key) ? weight : 0; // l stays unchanged //$ if dropout == 1
        slice_add(o, keep, weight, slice_load<HEAD_DIM_V>(value_row(p, head, key)));
    }

    // o = o / (l (1 - dropout_p)) //$ if dropout == 1
    // o = o / l                   //$ else
    for (float &value : o.value)
        value = p.dropout_factor * softmax_normalize(value, state); //$ if dropout == 1
        value = softmax_normalize(value, state);                    //$ else
    slice_store(head.o + query * p.o_row_stride, o);
    if (head.lse && slice_place(0) == 0)
        head.lse[query] = softmax_lse(state);
}
