// Attention in one loop, one key at a time. The kernel accumulates the output before it knows the final maximum: with the running
// maximum m, o is sum exp(s - m) v, and when m grows to m', o and the denominator are multiplied by exp(m - m').
// The division by l comes at the end: one per row instead of one per key.
// LANES lanes hold a row of Q and of O in registers; K and V are read once for every query.
//$ require dropout == 0
//$ default threads = 128
//$ tune threads in [32, 64, 128, 256, 512, 1024]
//$ require threads % 32 == 0
//$ let lanes = 8 if head_dim + head_dim_v <= 256 else 16 if head_dim + head_dim_v <= 512 else 32
//$ let rows = threads / lanes
//$ launch attention_flash grid (batch * heads * len_q + rows - 1) / rows block threads shared 0
//$ include "sequence/head.cuh"
//$ include "sequence/input_kv.cuh"
//$ include "sequence/$layout.cuh" if layout != dense
//$ include "load/paged.cuh" if page_size > 0
//$ include "expression/formula.cuh" if mask == custom_mask or score == custom_score or sinks > 0
//$ include "walk/keys_seen.cuh"
//$ include "load/slice.cuh"
//$ include "fragment/softmax.cuh"

//$ if layout == dense
extern "C" __global__ void __launch_bounds__(THREADS) attention_flash(const __grid_constant__ attention_params p) {
    long long row = static_cast<long long>(blockIdx.x) * ROWS + threadIdx.x / LANES; // (batch, head, query) in one
    if (row >= static_cast<long long>(p.batch) * p.heads * p.len_q)
        return;
    Head head = head_at(p, row / p.len_q);
    int query = static_cast<int>(row % p.len_q);
    //$ else
extern "C" __global__ void __launch_bounds__(THREADS) attention_flash(const __grid_constant__ attention_params all) {
    long long row = static_cast<long long>(blockIdx.x) * ROWS + threadIdx.x / LANES; // (batch, head, query) in one
    if (row >= static_cast<long long>(all.batch) * all.heads * all.len_q)
        return;
    const attention_params p = sequence_of(all, static_cast<int>(row / all.len_q / all.heads));
    int query = static_cast<int>(row % all.len_q);
    if (query >= p.len_q)
        return;
    Head head = head_at(p, row / all.len_q);
    //$ end
    //$ if mask == custom_mask or score == custom_score or sinks > 0
    const Where at = where_is(p, row / p.len_q);   //$ if layout == dense
    const Where at = where_is(p, row / all.len_q); //$ else
    const int position = position_of(p, query);
    //$ end
    const Keys keys = keys_of(p, at, position, position); //$ if mask == custom_mask
    int seen = keys_seen(p, query);                       //$ else
    Slice<HEAD_DIM> q = slice_load<HEAD_DIM>(head.q + query * p.q_row_stride);

    SoftmaxState state = softmax_of(tensor_sinks(p, at.h)); // a sink has weight and no value //$ if sinks > 0
    SoftmaxState state = softmax_of_nothing();                                                //$ else
    Slice<HEAD_DIM_V> o = slice_zero<HEAD_DIM_V>();
    //$ if mask == custom_mask
    for (int key = keys.first; key < keys.end; key++) {
        if (!sees(p, at, position, key))
            continue;
    //$ else
    for (int key = 0; key < seen; key++) {
    //$ end
        // s = scale q.k
        //$ if page_size > 0
        float score = p.scale * slice_dot(q, slice_load<HEAD_DIM>(head.k + paged_row(p, key, p.k_batch_stride, p.k_row_stride)));
        //$ else
        float score = p.scale * slice_dot(q, slice_load<HEAD_DIM>(head.k + key * p.k_row_stride));
        //$ end
        //$ if kv_scale != none and page_size > 0
        score *= head.k_scale[paged_row(p, key, p.k_scale_batch_stride, p.k_scale_row_stride)];
        //$ elif kv_scale != none
        score *= head.k_scale[key * p.k_scale_row_stride];
        //$ end
        score = score_of(p, at, position, key, score); //$ if score == custom_score

        // m' = max(m, s),  keep = exp(m - m'),  weight = exp(s - m')
        float max = fmaxf(state.max, score);
        float keep = softmax_weight(state.max, max);
        float weight = softmax_weight(score, max);

        // l = l keep + weight,  o = o keep + weight v
        state = {max, state.sum * keep + weight};
        //$ if kv_scale != none and page_size > 0
        weight *= head.v_scale[paged_row(p, key, p.v_scale_batch_stride, p.v_scale_row_stride)];
        //$ elif kv_scale != none
        weight *= head.v_scale[key * p.v_scale_row_stride];
        //$ end
        //$ if page_size > 0
        slice_add(o, keep, weight, slice_load<HEAD_DIM_V>(head.v + paged_row(p, key, p.v_batch_stride, p.v_row_stride)));
        //$ else
        slice_add(o, keep, weight, slice_load<HEAD_DIM_V>(head.v + key * p.v_row_stride));
        //$ end
    }

    // o = o / l
    for (float &value : o.value)
        value = softmax_normalize(value, state);
    slice_store(head.o + query * p.o_row_stride, o);
    if (head.lse && slice_place(0) == 0)
        head.lse[query] = softmax_lse(state);
}
