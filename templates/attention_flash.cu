// Attention in one loop, one key at a time. The output need not wait for the final maximum: with the running maximum m,
// o holds sum exp(s - m) v, and when m grows to m' all of it shrinks by exp(m - m'), exactly as the denominator does.
// Dividing by l is left to the end, where it costs once a row instead of once a key.
// A row of Q and of O belongs to LANES lanes, which hold both in registers; K and V are read once for every query.
//$ default threads = 128
//$ tune threads in [32, 64, 128, 256, 512, 1024]
//$ require threads % 32 == 0
//$ if head_dim + head_dim_v <= 256
//$ let lanes = 8
//$ else
//$ let lanes = 16
//$ end
//$ let rows = threads / lanes
//$ launch attention_flash grid (batch * heads * len_q + rows - 1) / rows block threads shared 0
//$ include "sequence/head.cuh"
//$ if mask == custom_mask or score == custom_score or sinks > 0
//$ include "expression/formula.cuh"
//$ end
//$ include "walk/keys_seen.cuh"
//$ include "load/slice.cuh"
//$ include "fragment/softmax.cuh"

extern "C" __global__ void __launch_bounds__(THREADS) attention_flash(const __grid_constant__ attention_params p) {
    long long row = static_cast<long long>(blockIdx.x) * ROWS + threadIdx.x / LANES; // (batch, head, query) in one
    if (row >= static_cast<long long>(p.batch) * p.heads * p.len_q)
        return;
    Head head = head_at(p, row / p.len_q);
    int query = static_cast<int>(row % p.len_q);
    //$ if mask == custom_mask or score == custom_score or sinks > 0
    const Where at = where_is(p, row / p.len_q);
    const int position = position_of(p, query);
    //$ end
    //$ if mask == custom_mask
    const Keys keys = keys_of(p, at, position, position);
    //$ else
    int seen = keys_seen(p, query);
    //$ end
    Slice<HEAD_DIM> q = slice_load<HEAD_DIM>(head.q + query * p.q_row_stride);

    //$ if sinks > 0
    SoftmaxState state = softmax_of(tensor_sinks(p, at.h)); // takes weight, adds no value
    //$ else
    SoftmaxState state = softmax_of_nothing();
    //$ end
    Slice<HEAD_DIM_V> o = slice_zero<HEAD_DIM_V>();
    //$ if mask == custom_mask
    for (int key = keys.first; key < keys.end; key++) {
        if (!sees(p, at, position, key))
            continue;
    //$ else
    for (int key = 0; key < seen; key++) {
    //$ end
        // s = scale q.k
        float score = p.scale * slice_dot(q, slice_load<HEAD_DIM>(head.k + key * p.k_row_stride));
        //$ if score == custom_score
        score = score_of(p, at, position, key, score);
        //$ end

        // m' = max(m, s),  keep = exp(m - m'),  weight = exp(s - m')
        float max = fmaxf(state.max, score);
        float keep = softmax_weight(state.max, max);
        float weight = softmax_weight(score, max);

        // l = l keep + weight,  o = o keep + weight v
        state = {max, state.sum * keep + weight};
        slice_add(o, keep, weight, slice_load<HEAD_DIM_V>(head.v + key * p.v_row_stride));
    }

    // o = o / l
    for (float &value : o.value)
        value = softmax_normalize(value, state);
    slice_store(head.o + query * p.o_row_stride, o);
    if (head.lse && slice_place(0) == 0)
        head.lse[query] = softmax_lse(state);
}
