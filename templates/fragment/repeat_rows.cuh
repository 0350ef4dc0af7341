//$ needs dtype head_dim head_dim_v columns_v mask score sinks block_n rows_aligned
//$ include "fragment/reduce.cuh"
//$ include "sequence/element.cuh"
//$ include "fragment/softmax_rows.cuh"
//$ include "work/tile.cuh"

// Rows that are done over by the definition, 32 keys at a time, by the whole warp: lane i has key i of them, and columns i,
// i + 32, ... of O. A weight of 0 keeps out every number but NaN and infinity: 0 times those is NaN. So a row of O that is not
// finite may have it from the value of a key it does not see, if such a value is in a tile of keys that it sees in part.

//$ if rows_aligned
// Elements `column` and the next of a row; column is even.
template <int COLUMNS> __device__ __forceinline__ unsigned pair_at(const Input *row, int column) {
    return *reinterpret_cast<const unsigned *>(row + column);
}
//$ else
// Elements `column` and the next of a row of any alignment, 0 behind its end.
template <int COLUMNS> __device__ __forceinline__ unsigned pair_at(const Input *row, int column) {
    return row[column] | (COLUMNS % 2 == 0 || column + 1 < COLUMNS ? static_cast<unsigned>(row[column + 1]) << 16 : 0);
}
//$ end

// Which of the warp's rows are not finite, though their sum is: bit 4 g + r for row g + 8 r.
__device__ __forceinline__ unsigned rows_to_repeat(const float (&o)[COLUMNS_V / 2], const Rows &rows) {
    unsigned bits = 0;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float even = 0, odd_columns = 0; // a sum is finite only if all its terms are
#pragma unroll
        for (int i = 2 * r; i < COLUMNS_V / 2; i += 4)
            even += o[i], odd_columns += o[i + 1];
        unsigned odd = __ballot_sync(0xffffffffu, !(fabsf(even + odd_columns) < INFINITY)); // lanes 4 g to 4 g + 3 hold row g
        unsigned right = __ballot_sync(0xffffffffu, !(rows.sum[r] < INFINITY));
        odd |= odd >> 1, right |= right >> 1;
        odd |= odd >> 2, right |= right >> 2;
        bits |= (odd & ~right & 0x11111111) << r;
    }
    return bits;
}

// Is a value of keys first, first + 1, ... end - 1 not finite?
__device__ __forceinline__ bool has_not_finite(const attention_params &p, const Tile &tile, int first, int end) {
    const Input *v = static_cast<const Input *>(p.v) + tile.batch * p.v_batch_stride + tile.kv_head * p.v_head_stride;
    bool found = false;
#pragma unroll 1
    for (int key = first; key < end; key++)
#pragma unroll
        for (int column = threadIdx.x % 32 * 2; column < HEAD_DIM_V; column += 64) {
            const unsigned pair = pair_at<HEAD_DIM_V>(v + key * p.v_row_stride, column);
            //$ if dtype == bf16
            found |= (pair & 0x7f80) == 0x7f80 || (pair & 0x7f800000) == 0x7f800000;
            //$ else
            found |= (pair & 0x7c00) == 0x7c00 || (pair & 0x7c000000) == 0x7c000000;
            //$ end
        }
    return __any_sync(0xffffffffu, found);
}

// Is it so in a tile of keys that some row of the unit does not see all of?
__device__ __forceinline__ bool values_want_care(const attention_params &p, const Tile &tile, int unit) {
    //$ if mask == custom_mask
    bool found = false;
    KeyWalk walk = walk_of_unit(p, tile, unit);
#pragma unroll 1
    while (walk.left > 0 && !found) {
        const int key = next_keys(p, tile, unit, walk) * BLOCK_N;
        found = !walk.whole && has_not_finite(p, tile, key, min(key + BLOCK_N, p.len_kv));
    }
    return found;
    //$ else
    const int first = keys_end(p, tile.query + unit * queries_of_unit(p) + 1);
    return has_not_finite(p, tile, max(0, first), min(key_tiles(p, tile.query, queries_of_tile(p)) * BLOCK_N, p.len_kv));
    //$ end
}

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
            const unsigned pair_q = pair_at<HEAD_DIM>(q, d), pair_k = pair_at<HEAD_DIM>(k + key * p.k_row_stride, d);
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
