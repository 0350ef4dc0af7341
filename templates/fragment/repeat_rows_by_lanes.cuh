//$ needs head_dim head_dim_v mask score sinks
//$ include "fragment/reduce.cuh"
//$ include "fragment/rows_to_repeat.cuh"

// Rows that are done over by the definition, 32 keys at a time, by the whole warp: lane i has key i of them, and columns i,
// i + 32, ... of O. It takes few registers, as warpgroups need that are three or four in a block.

constexpr int PIECES = (HEAD_DIM_V + 31) / 32;

struct RepeatedRow {
    float max, sum;  // in all lanes
    float o[PIECES]; // not yet divided by the sum
};

__device__ __forceinline__ RepeatedRow repeat_row(const attention_params &p, Tile tile, Row at, float c) {
    const int lane = threadIdx.x % 32;
    const Input *q = static_cast<const Input *>(p.q) + tile.batch * p.q_batch_stride + at.head * p.q_head_stride +
                     at.query * p.q_row_stride;
    const Input *k = static_cast<const Input *>(p.k) + tile.batch * p.k_batch_stride + tile.kv_head * p.k_head_stride;
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
    RepeatedRow row = {sink_of(p, tile.head), 1, {}};
    //$ else
    RepeatedRow row = {-INFINITY, 0, {}};
    //$ end
#pragma unroll 1
    for (int key0 = first; key0 < end; key0 += 32) {
        const int key = min(key0 + lane, end - 1);
        //$ if mask == custom_mask
        const bool seen = key0 + lane < end && sees(p, where, position, key);
        //$ else
        const bool seen = key0 + lane < end;
        //$ end
        float s = 0;
#pragma unroll 1
        for (int d = 0; d < HEAD_DIM; d += 2) {
            const unsigned pair_q = *reinterpret_cast<const unsigned *>(q + d);
            const unsigned pair_k = *reinterpret_cast<const unsigned *>(k + key * p.k_row_stride + d);
            s = fmaf(to_float(static_cast<Input>(pair_q)), to_float(static_cast<Input>(pair_k)), s);
            s = fmaf(to_float(static_cast<Input>(pair_q >> 16)), to_float(static_cast<Input>(pair_k >> 16)), s);
        }
        //$ if score == custom_score
        s = score_of(p, where, position, key, p.scale * s);
        //$ else
        s = p.scale < 0 ? -s : s;
        //$ end
        const float higher = fmaxf(row.max, lanes_max<32>(seen ? s : -INFINITY)), shift = finite_max(higher);
        const float keep = exp2_approx((row.max - shift) * c), weight = seen ? exp2_approx(__fsub_rn(s, shift) * c) : 0;
        row.max = higher;
        row.sum = row.sum * keep + lanes_sum<32>(weight);
#pragma unroll
        for (int i = 0; i < PIECES; i++)
            row.o[i] *= keep;
        const unsigned all = __ballot_sync(0xffffffffu, seen);
#pragma unroll 2
        for (unsigned left = all; left; left &= left - 1) {
            const int other = __ffs(static_cast<int>(left)) - 1;
            const float weight_of = __shfl_sync(0xffffffffu, weight, other);
#pragma unroll
            for (int i = 0; i < PIECES; i++)
                if (lane + 32 * i < HEAD_DIM_V)
                    row.o[i] = fmaf(weight_of, to_float(v[(key0 + other) * p.v_row_stride + 32 * i]), row.o[i]);
        }
    }
    return row;
}
