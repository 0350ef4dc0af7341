//$ include "part/head.cuh"
//$ include "part/reduce.cuh"
//$ include "part/softmax_rows.cuh"

// Rows that are done over by the definition, one seen key at a time. All lanes of the warp share the products q.k; the four
// lanes of the row sum up its values.
//$ if mask != none
// A weight of 0 keeps out every number but NaN and infinity: 0 times those is NaN. So a row of O that is not finite may
// have it from the value of a key it does not see.
//$ end
//$ if rescale == from_sum
// Weights may have been too large, alone or times a large value, or there was no score to start from: see softmax_onward.
//$ end
__device__ __forceinline__ void repeat_rows(const attention_params &p, Tile tile, int unit, float c,
                                            float (&o)[HEAD_DIM_V / 2], Rows &rows) {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        //$ if rescale == from_sum
        bool finite = rows.sum[r] <= 0x1p100f && fabsf(rows.max[r]) < INFINITY;
        //$ else
        bool finite = true;
        //$ end
        float even = 0, odd_columns = 0; // a sum is finite only if all its terms are
#pragma unroll
        for (int i = 2 * r; i < HEAD_DIM_V / 2; i += 4)
            even += o[i], odd_columns += o[i + 1];
        finite &= fabsf(even + odd_columns) < INFINITY;
        unsigned odd = __ballot_sync(0xffffffffu, !finite);
        for (int g = 0; g < 8 && odd; g++) { // lanes 4 g .. 4 g + 3 hold row g
            Row again = row_of(p, tile, unit, warp_index() % 4 * 16 + g + 8 * r);
            if (!(odd >> 4 * g & 15) || again.query >= p.len_q)
                continue;
            Head head = head_at(p, static_cast<long long>(tile.batch) * p.heads + again.head);
            const Input *q = head.q + again.query * p.q_row_stride;
            //$ if mask == custom_mask or score == custom_score
            const Where where = {tile.batch, again.head, tile.kv_head};
            const int position = position_of(p, again.query);
            //$ end
            //$ if mask == custom_mask
            const Keys keys = keys_of(p, where, position, position);
            const int first = keys.first, end = keys.end;
            //$ else
            const int first = 0, end = keys_end(p, again.query + 1);
            //$ end
            //$ if sinks > 0
            float max = sink_of(p, tile), sum = 1;
            //$ else
            float max = -INFINITY, sum = 0;
            //$ end
            if (lane / 4 == g)
#pragma unroll
                for (int i = 2 * r; i < HEAD_DIM_V / 2; i += 4)
                    o[i] = o[i + 1] = 0;
            for (int key = first; key < end; key++) {
                //$ if mask == custom_mask
                if (!sees(p, where, position, key))
                    continue;
                //$ end
                float s = 0;
                for (int d = lane; d < HEAD_DIM; d += 32)
                    s = fmaf(to_float(q[d]), to_float(head.k[key * p.k_row_stride + d]), s);
                s = lanes_sum<32>(s);
                //$ if score == custom_score
                ScoreKey k;
                set_key(k, key, 0);
                s = score_of(p, where, position, k, p.scale * s);
                //$ end
                float higher = fmaxf(max, s), shift = higher == -INFINITY ? 0 : higher;
                float keep = exp2_approx((max - shift) * c), weight = exp2_approx((s - shift) * c);
                max = higher;
                sum = sum * keep + weight;
                const Input *value = head.v + key * p.v_row_stride + lane % 4 * 2;
                if (lane / 4 == g)
#pragma unroll
                    for (int i = 2 * r; i < HEAD_DIM_V / 2; i += 4) {
                        o[i] = fmaf(weight, to_float(value[i / 4 * 8]), o[i] * keep);
                        o[i + 1] = fmaf(weight, to_float(value[i / 4 * 8 + 1]), o[i + 1] * keep);
                    }
            }
            if (lane / 4 == g) {
                rows.max[r] = max;
                rows.sum[r] = lane % 4 == 0 ? sum : 0; // the four lanes' shares are added up below
            }
        }
    }
}
