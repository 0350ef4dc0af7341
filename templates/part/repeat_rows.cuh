//$ include "part/reduce.cuh"
//$ include "part/softmax_rows.cuh"

// Rows that are done over by the definition, one seen key at a time, by the whole warp: lane i has columns i, i + 32, ... of
// O. It hardly ever happens, so it is written for few instructions, and far from the accumulators.
//$ if mask != none
// A weight of 0 keeps out every number but NaN and infinity: 0 times those is NaN. So a row of O that is not finite may
// have it from the value of a key it does not see.
//$ end
//$ if dtype == fp16
// A weight too small for fp16 is multiplied as 0, which makes NaN of an infinite value.
//$ end
//$ if rescale == from_sum
// Weights may have been too large, alone or times a large value, or there was no score to start from: see softmax_onward.
//$ end

// Which of the warp's rows those are: bit 4 g + r for row g + 8 r.
__device__ __forceinline__ unsigned rows_to_repeat(const float (&o)[HEAD_DIM_V / 2], const Rows &rows) {
    unsigned bits = 0;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        //$ if rescale == from_sum and plain_scores
        bool finite = rows.sum[r] <= 0x1p100f && fabsf(rows.max[r]) < INFINITY;
        //$ elif rescale == from_sum
        bool finite = rows.sum[r] <= 0x1p100f && rows.max[r] < INFINITY; // no m: no finite score
        //$ else
        bool finite = true;
        //$ end
        float even = 0, odd_columns = 0; // a sum is finite only if all its terms are
#pragma unroll
        for (int i = 2 * r; i < HEAD_DIM_V / 2; i += 4)
            even += o[i], odd_columns += o[i + 1];
        finite &= fabsf(even + odd_columns) < INFINITY;
        unsigned odd = __ballot_sync(0xffffffffu, !finite); // lanes 4 g .. 4 g + 3 hold row g
        odd |= odd >> 1;
        odd |= odd >> 2;
        bits |= (odd & 0x11111111) << r;
    }
    return bits;
}

constexpr int PIECES = (HEAD_DIM_V + 31) / 32;

struct RepeatedRow {
    float max, sum;  // in all lanes
    float o[PIECES]; // not yet divided by the sum
};

__device__ __forceinline__ RepeatedRow repeat_row(const attention_params &p, Tile tile, Row at, float c) {
    int lane = threadIdx.x % 32;
    const Input *q = static_cast<const Input *>(p.q) + tile.batch * p.q_batch_stride + at.head * p.q_head_stride +
                     at.query * p.q_row_stride + lane;
    const Input *k = static_cast<const Input *>(p.k) + tile.batch * p.k_batch_stride + tile.kv_head * p.k_head_stride + lane;
    const Input *v = static_cast<const Input *>(p.v) + tile.batch * p.v_batch_stride + tile.kv_head * p.v_head_stride + lane;
    //$ if mask == custom_mask or score == custom_score
    const Where where = {tile.batch, at.head, tile.kv_head};
    const int position = position_of(p, at.query);
    //$ end
    //$ if mask == custom_mask
    const Keys keys = keys_of(p, where, position, position);
    const int first = keys.first, end = keys.end;
    //$ else
    const int first = 0, end = keys_end(p, at.query + 1);
    //$ end
    //$ if sinks > 0
    RepeatedRow row = {sink_of(p, tile), 1, {}};
    //$ else
    RepeatedRow row = {-INFINITY, 0, {}};
    //$ end
#pragma unroll 1
    for (int key = first; key < end; key++) {
        //$ if mask == custom_mask
        if (!sees(p, where, position, key))
            continue;
        //$ end
        float s = 0;
#pragma unroll 1
        for (int d = 0; d < HEAD_DIM - lane; d += 32)
            s = fmaf(to_float(q[d]), to_float(k[key * p.k_row_stride + d]), s);
        s = lanes_sum<32>(s);
        //$ if score == custom_score
        s = score_of(p, where, position, key, p.scale * s) * LOG2_E;
        //$ end
        float higher = fmaxf(row.max, s), shift = higher == -INFINITY ? 0 : higher;
        float keep = exp2_approx((row.max - shift) * c), weight = exp2_approx((s - shift) * c);
        row.max = higher;
        row.sum = row.sum * keep + weight;
#pragma unroll
        for (int i = 0; i < PIECES; i++)
            if (lane + 32 * i < HEAD_DIM_V)
                row.o[i] = fmaf(weight, to_float(v[key * p.v_row_stride + 32 * i]), row.o[i] * keep);
    }
    return row;
}
