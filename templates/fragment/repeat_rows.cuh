//$ needs dtype head_dim_v columns_v mask score dropout split_keys block_n bfloat16 rows_aligned units page_size algorithm layout block_m
//$ include "fragment/scores_from_memory.cuh"
//$ include "fragment/softmax_rows.cuh"

// Recomputes rows of O. In a K/V tile that a row sees in part, P = 0 for the masked keys; but 0 * NaN and 0 * infinity are NaN, so
// a NaN or infinity in the V of a masked key reaches O. The warp recomputes its 16 rows, 16 keys at a time, by mma.sync from
// global memory. m and l stay: they are right.

// Is one of the warp's rows of O not finite, though its sum is?
__device__ __forceinline__ bool wants_repeat(const float (&o)[COLUMNS_V / 2], const Rows &rows) {
    unsigned some = 0;
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
        some |= odd & ~right & 0x11111111;
    }
    return some != 0;
}

//$ if dtype != fp32
//$ include "fragment/not_finite.cuh"
//$ end
// Is an element of V of the keys first .. end - 1 not finite?
__device__ __forceinline__ bool has_not_finite(const attention_params &p, const Tile &tile, int first, int end) {
    //$ if page_size > 0
    const Input *v = static_cast<const Input *>(p.v) + tile.kv_head * p.v_head_stride;
    //$ else
    const Input *v = static_cast<const Input *>(p.v) + tile.batch * p.v_batch_stride + tile.kv_head * p.v_head_stride;
    //$ end
    bool found = false;
#pragma unroll 1
    for (int key = first; key < end; key++)
#pragma unroll
        //$ if dtype == fp32
        for (int column = threadIdx.x % 32; column < HEAD_DIM_V; column += 32) {
            //$ if page_size > 0
            const float element = v[paged_row(p, key, p.v_batch_stride, p.v_row_stride) + column];
            //$ else
            const float element = v[key * p.v_row_stride + column];
            //$ end
            found |= !(fabsf(element) < INFINITY);
        }
    //$ else
        for (int column = threadIdx.x % 32 * 2; column < HEAD_DIM_V; column += 64) {
            //$ if page_size > 0
            const unsigned pair =
                pair_at<HEAD_DIM_V>(v + paged_row(p, key, p.v_batch_stride, p.v_row_stride) + column, column);
            //$ else
            const unsigned pair = pair_at<HEAD_DIM_V>(v + key * p.v_row_stride + column, column);
            //$ end
            found |= not_finite(pair) != 0;
        }
    //$ end
    return __any_sync(0xffffffffu, found);
}

// Is an element of V not finite in a K/V tile that some row of the unit sees only in part?
__device__ __forceinline__ bool values_want_care(const attention_params &p, const Tile &tile, int unit) {
    //$ if mask == custom_mask
    bool found = false;
    KeyWalk walk = walk_of_unit(p, tile, unit);
#pragma unroll 1
    while (walk.left > 0 && !found) {
        const int key = next_keys(p, tile, unit, walk) * BLOCK_N;
        //$ if algorithm == flash_async and layout != dense
        found = !walk.whole && has_not_finite(p, tile, key, min(key + BLOCK_N, p.total_kv));
        //$ else
        found = !walk.whole && has_not_finite(p, tile, key, min(key + BLOCK_N, p.len_kv));
        //$ end
    }
    return found;
    //$ else
    const int first = keys_end(p, tile.query + unit * queries_of_unit(p) + 1);
    //$ if algorithm == flash_async and layout != dense
    return has_not_finite(p, tile, max(0, first), min(key_tiles(p, tile.query, queries_of_tile(p)) * BLOCK_N, p.total_kv));
    //$ else
    return has_not_finite(p, tile, max(0, first), min(key_tiles(p, tile.query, queries_of_tile(p)) * BLOCK_N, p.len_kv));
    //$ end
    //$ end
}

//$ if split_keys > 0
// The keys of the part that the Q tile is one of: from the first of the tile returned last to the end of the first one.
__device__ __forceinline__ void keys_of_part(const attention_params &p, const Tile &tile, int &first, int &end) {
    KeyWalk walk = walk_of_tile(p, tile);
    first = next_keys(p, tile, UNITS, walk) * BLOCK_N, end = first + BLOCK_N;
#pragma unroll 1
    while (walk.left > 0)
        first = next_keys(p, tile, UNITS, walk) * BLOCK_N;
}

//$ end
// Keys of [first, end), among which are all that some row of the warp sees. By reductions whose answer the compiler knows to be
// the same in all lanes: otherwise descriptors of wgmma would not stay in uniform registers, and other kernels would spill.
__device__ __forceinline__ void keys_of_warp(const Unit &unit, int &first, int &end) {
    first = unit.p.len_kv, end = 0;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const int row = unit.row() + 8 * r;
        //$ if mask == custom_mask
        const Keys keys = keys_of(unit.p, unit.where, unit.position(row), unit.position(row));
        first = min(first, keys.first), end = max(end, keys.end);
        //$ else
        first = 0, end = max(end, keys_end(unit.p, unit.at(row).query + 1));
        //$ end
    }
    //$ if split_keys > 0
    if (unit.p.splits > 1) {
        int part_first, part_end;
        keys_of_part(unit.p, unit.tile, part_first, part_end);
        first = max(first, part_first), end = min(end, part_end);
    }
    //$ end
    first = __reduce_min_sync(0xffffffffu, first);
    end = __reduce_max_sync(0xffffffffu, end);
}

// s = weights of S (16, 16) of keys from key0 on. Returns which are of keys that are seen: bit i for s[i]. One element at a time,
// the others move up, since masks and scores may be long.
__device__ __forceinline__ unsigned exp2_sixteen(float (&s)[8], const Unit &unit, const Rows &rows, float c, int key0) {
    const attention_params &p = unit.p;
    unsigned seen = 0;
    //$ if dropout == 1
    const Dropout dropout = dropout_of(p, static_cast<long long>(unit.tile.batch) * p.heads + unit.tile.head);
    //$ end
#pragma unroll 1
    for (int i = 0; i < 8; i++) {
        const int row = unit.row() + i / 2 % 2 * 8, key = key0 + i / 4 * 8 + unit.lane % 4 * 2 + i % 2;
        const float max = i / 2 % 2 ? rows.max[1] : rows.max[0];
        float score = s[0];
        //$ if mask == custom_mask
        const bool sees_it = key < p.len_kv && sees(p, unit.where, unit.position(row), min(key, p.len_kv - 1));
        //$ else
        const bool sees_it = key < keys_end(p, unit.at(row).query + 1);
        //$ end
        //$ if score == custom_score
        score = score_of(p, unit.where, unit.position(row), min(key, p.len_kv - 1), p.scale * score);
        //$ end
#pragma unroll
        for (int j = 0; j < 7; j++)
            s[j] = s[j + 1];
        s[7] = sees_it ? exp2_approx(__fsub_rn(score, finite_max(max)) * c) : 0;
        //$ if dropout == 1
        s[7] = keeps_pair(dropout, unit.at(row).query, key) ? s[7] : 0;
        //$ end
        seen |= static_cast<unsigned>(sees_it) << i;
    }
    return seen;
}

// Columns of O at a time: S of the next tile may be in registers, too.
//$ if algorithm == flash_async and block_m <= 128
constexpr int PASS = HEAD_DIM_V > 64 ? 128 : 16; // two consumers have 240 registers a thread
//$ else
constexpr int PASS = HEAD_DIM_V > 64 ? 64 : 16;
//$ end

//$ if page_size > 0
// V of this head in page 0, from a column on.
__device__ __forceinline__ const Input *values_from(const Unit &unit, int column) {
    return static_cast<const Input *>(unit.p.v) + unit.tile.kv_head * unit.p.v_head_stride + column;
}

// The row of a key, from there on; of the last key in place of those behind it.
__device__ __forceinline__ long long value_row(const attention_params &p, int key) {
    return paged_row(p, min(key, p.len_kv - 1), p.v_batch_stride, p.v_row_stride);
}
//$ else
// V of this batch and head, from a column on.
__device__ __forceinline__ const Input *values_from(const Unit &unit, int column) {
    return static_cast<const Input *>(unit.p.v) + unit.tile.batch * unit.p.v_batch_stride +
           unit.tile.kv_head * unit.p.v_head_stride + column;
}
//$ end

//$ if dtype == fp32
// O (16, PASS) = P V in fp32, of the warp's rows, not yet divided by l.
__device__ __forceinline__ void repeat_pass(float (&o)[PASS / 2], const Unit &unit, const Rows &rows, float c, int first,
                                            int end, int first_column) {
#pragma unroll
    for (float &value : o)
        value = 0;
#pragma unroll 1
    for (int key0 = first; key0 < end; key0 += 16) {
        float s[8];
        scores_from_memory<16>(s, unit, key0);
        const unsigned seen = exp2_sixteen(s, unit, rows, c, key0);
#pragma unroll
        for (int i = 0; i < 8; i++) // the weights of two rows of one key stand in two elements
            if (i % 4 < 2)
#pragma unroll 1
                for (int lane = 0; lane < 4; lane++) {
                    const int from = unit.lane / 4 * 4 + lane, key = min(key0 + i / 4 * 8 + 2 * lane + i % 2, unit.p.len_kv - 1);
                    const unsigned of_key = __shfl_sync(0xffffffffu, seen, from) >> i;
                    const float weight[2] = {__shfl_sync(0xffffffffu, s[i], from), __shfl_sync(0xffffffffu, s[i + 2], from)};
                    const int column = first_column + unit.lane % 4 * 2;
                    //$ if page_size > 0
                    const Input *v = values_from(unit, column) + value_row(unit.p, key);
                    //$ else
                    const Input *v = values_from(unit, column) + key * unit.p.v_row_stride;
                    //$ end
#pragma unroll
                    for (int j = 0; j < PASS / 2; j++) {
                        const bool inside = column + j / 4 * 8 + j % 2 < HEAD_DIM_V;
                        if (inside && (of_key >> j / 2 % 2 * 2 & 1))
                            o[j] = fmaf(weight[j / 2 % 2], v[j / 4 * 8 + j % 2], o[j]);
                    }
                }
    }
}
//$ else
// O += P V of all finite values of 16 keys. True when there are others. P (16, 16) is an operand of mma.
__device__ __forceinline__ bool add_finite(float (&o)[PASS / 2], const unsigned (&weights)[4], const Unit &unit, int key0,
                                           int first_column) {
    const attention_params &p = unit.p;
    const Input *column = values_from(unit, first_column + unit.lane / 4);
    const int key = key0 + unit.lane % 4 * 2;
    unsigned odd = 0;
#pragma unroll
    for (int i = 0; i < PASS / 8; i++) {
        unsigned b[2] = {}; // values of keys `key`, the next, and 8 further on, of column 8 i + lane / 4
        //$ if rows_aligned
        const bool inside = first_column + 8 * i < HEAD_DIM_V;
        //$ else
        const bool inside = first_column + 8 * i + unit.lane / 4 < HEAD_DIM_V;
        //$ end
        if (inside)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                //$ if page_size > 0
                const unsigned pair = column[value_row(p, key + 8 * half) + 8 * i] |
                                      column[value_row(p, key + 8 * half + 1) + 8 * i] << 16;
                //$ else
                const unsigned pair = column[min(key + 8 * half, p.len_kv - 1) * p.v_row_stride + 8 * i] |
                                      column[min(key + 8 * half + 1, p.len_kv - 1) * p.v_row_stride + 8 * i] << 16;
                //$ end
                odd |= not_finite(pair);
                b[half] = pair & ~not_finite(pair);
            }
        mma<BFLOAT16>(o[4 * i], o[4 * i + 1], o[4 * i + 2], o[4 * i + 3], weights, b[0], b[1]);
    }
    return __any_sync(0xffffffffu, odd != 0);
}

// O += P V of those others, for the rows that see them: bit i of `seen` says so of element i of P.
__device__ __forceinline__ void add_not_finite(float (&o)[PASS / 2], const unsigned (&weights)[4], unsigned seen,
                                               const Unit &unit, int key0, int first_column) {
#pragma unroll 1
    for (int key = 0; key < 16; key++) {
        const int lane = unit.lane / 4 * 4 + key % 8 / 2, bit = key / 8 * 4 + key % 2; // which has its weights, and where
        const unsigned of_key = __shfl_sync(0xffffffffu, seen, lane) >> bit;
        float weight[2];
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const unsigned pair = __shfl_sync(0xffffffffu, key < 8 ? weights[r] : weights[r + 2], lane);
            weight[r] = to_float(static_cast<Input>(key % 2 ? pair >> 16 : pair));
        }
        //$ if page_size > 0
        const Input *row = values_from(unit, first_column + unit.lane % 4 * 2) + value_row(unit.p, key0 + key);
        //$ else
        const Input *row = values_from(unit, first_column + unit.lane % 4 * 2) +
                           min(key0 + key, unit.p.len_kv - 1) * unit.p.v_row_stride;
        //$ end
#pragma unroll
        for (int i = 0; i < PASS / 8; i++) {
            if (first_column + 8 * i >= HEAD_DIM_V)
                continue;
            const unsigned pair = pair_at<HEAD_DIM_V>(row + 8 * i, first_column + unit.lane % 4 * 2 + 8 * i), these = pair & not_finite(pair);
#pragma unroll
            for (int r = 0; r < 2; r++) {
                const unsigned of_row = of_key >> 2 * r & 1 ? these : 0;
                o[4 * i + 2 * r] = fmaf(weight[r], to_float(static_cast<Input>(of_row)), o[4 * i + 2 * r]);
                o[4 * i + 2 * r + 1] = fmaf(weight[r], to_float(static_cast<Input>(of_row >> 16)), o[4 * i + 2 * r + 1]);
            }
        }
    }
}

// O (16, PASS) = P V, of the warp's rows, not yet divided by l.
__device__ __forceinline__ void repeat_pass(float (&o)[PASS / 2], const Unit &unit, const Rows &rows, float c, int first,
                                            int end, int first_column) {
#pragma unroll
    for (float &value : o)
        value = 0;
    bool all_nan = false; // and so they stay
#pragma unroll 1
    for (int key0 = first; key0 < end && !all_nan; key0 += 16) {
        float s[8];
        scores_from_memory<16>(s, unit, key0);
        const unsigned seen = exp2_sixteen(s, unit, rows, c, key0);
        const unsigned weights[4] = {pack<BFLOAT16>(s[0], s[1]), pack<BFLOAT16>(s[2], s[3]), pack<BFLOAT16>(s[4], s[5]),
                                     pack<BFLOAT16>(s[6], s[7])};
        if (add_finite(o, weights, unit, key0, first_column)) {
            add_not_finite(o, weights, seen, unit, key0, first_column);
            all_nan = true;
#pragma unroll
            for (float value : o)
                all_nan = all_nan && value != value;
            all_nan = __all_sync(0xffffffffu, all_nan);
        }
    }
}
//$ end
