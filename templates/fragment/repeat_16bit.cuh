//$ needs head_dim head_dim_v score bfloat16 algorithm mask block_m folded
//$ note Three and four consumers have few registers beside S of the next tile.
//$ let repeat_holds_q = algorithm == flash_async and (block_m <= 128 or (mask != custom_mask and not folded))
//$ include "fragment/not_finite.cuh"
//$ include "sequence/pair.cuh"

// 32 columns of the warp's rows of Q, or of 16 keys. S sums over columns in any order, so a lane loads 8 neighbouring columns, of rows
// lane / 4 and 8 further down.
struct Slice {
    unsigned pairs[2][4];
};
constexpr int SLICES = (HEAD_DIM + 31) / 32;

__device__ __forceinline__ Slice load_queries_slice(const Unit &unit, int slice) {
    const int column = 32 * slice + unit.lane % 4 * 8;
    const unsigned sign = unit.p.scale < 0 ? 0x80008000 : 0; // Q in shared memory is negated then, too //$ if score != custom_score
    Slice q = {};
    if (column < HEAD_DIM)
#pragma unroll
        for (int r = 0; r < 2; r++)
            load_columns<HEAD_DIM, 8>(q.pairs[r], query_in_memory(unit, unit.row() + 8 * r) + column, column);
    //$ if score != custom_score
#pragma unroll
    for (int i = 0; i < 8; i++)
        q.pairs[i / 4][i % 4] ^= sign;
    //$ end
    return q;
}
__device__ __forceinline__ Slice load_keys_slice(const Unit &unit, int key0, int slice) {
    const int column = 32 * slice + unit.lane % 4 * 8;
    Slice k = {};
    if (column < HEAD_DIM)
#pragma unroll
        for (int n = 0; n < 2; n++)
            load_columns<HEAD_DIM, 8>(k.pairs[n], key_in_memory(unit, key0 + unit.lane / 4 + 8 * n) + column, column);
    return k;
}

// S (16, 16) += Q K^T of 32 columns.
__device__ __forceinline__ void add_scores(float (&s)[8], const Slice &q, const Slice &k) {
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        const unsigned a[4] = {q.pairs[0][i], q.pairs[1][i], q.pairs[0][i + 1], q.pairs[1][i + 1]};
#pragma unroll
        for (int n = 0; n < 2; n++)
            mma<BFLOAT16>(s[4 * n], s[4 * n + 1], s[4 * n + 2], s[4 * n + 3], a, k.pairs[n][i], k.pairs[n][i + 1]);
    }
}

// V (16, PASS) of the keys from key0 on, as a lane loads it: of keys 2 (lane % 4) and the next, and of those 8 further on.
struct Values {
    unsigned pairs[PASS / 8 / WIDTH][4][WIDTH / 2];
};

__device__ __forceinline__ Values load_values(const Unit &unit, int key0, int first_column) {
    Values v = {};
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const Input *row = value_in_memory(unit, key0 + unit.lane % 4 * 2 + j % 2 + j / 2 * 8);
#pragma unroll
        for (int group = 0; group < PASS / 8 / WIDTH; group++) {
            const int column = first_column + (8 * group + unit.lane / 4) * WIDTH;
            if (column < HEAD_DIM_V)
                load_columns<HEAD_DIM_V, WIDTH>(v.pairs[group][j], row + column, column);
        }
    }
    return v;
}

// Of two pairs the lower elements, or the upper ones.
__device__ __forceinline__ unsigned pair_of(unsigned first, unsigned second, bool upper) {
    return upper ? first >> 16 | (second & 0xffff0000) : (first & 0xffff) | second << 16;
}

// Sets those values to 0 that are not finite. True when there are some.
__device__ __forceinline__ bool keep_finite(Values &v) {
    unsigned (&pairs)[PASS / 4] = reinterpret_cast<unsigned (&)[PASS / 4]>(v.pairs);
    unsigned others = 0;
#pragma unroll
    for (unsigned pair : pairs)
        others |= not_finite(pair);
    const bool found = __any_sync(0xffffffffu, others != 0);
    if (found)
#pragma unroll
        for (unsigned &pair : pairs)
            pair &= ~not_finite(pair);
    return found;
}

// P (16, 16) of 16 keys as an operand of mma, and which keys are seen, as exp2_sixteen says.
struct Sixteen {
    int key0;
    unsigned weights[4], seen;
};

// O += P V of values that are finite.
__device__ __forceinline__ void add_values(float (&o)[PASS / 2], const unsigned (&weights)[4], const Values &v) {
#pragma unroll
    for (int i = 0; i < PASS / 8; i++) {
        const int pair = i % WIDTH / 2;
        const unsigned (&of)[4][WIDTH / 2] = v.pairs[i / WIDTH];
        mma<BFLOAT16>(o[4 * i], o[4 * i + 1], o[4 * i + 2], o[4 * i + 3], weights, pair_of(of[0][pair], of[1][pair], i % 2),
                      pair_of(of[2][pair], of[3][pair], i % 2));
    }
}

// O += P V of the values that are not finite, for the rows that see them.
__device__ __forceinline__ void add_not_finite(float (&o)[PASS / 2], const Sixteen &p, const Unit &unit, int first_column) {
#pragma unroll 1
    for (int key = 0; key < 16; key++) {
        const int lane = unit.lane / 4 * 4 + key % 8 / 2, bit = key / 8 * 4 + key % 2; // which has its weights, and where
        const unsigned of_key = __shfl_sync(0xffffffffu, p.seen, lane) >> bit;
        float weight[2];
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const unsigned pair = __shfl_sync(0xffffffffu, key < 8 ? p.weights[r] : p.weights[r + 2], lane);
            weight[r] = to_float(static_cast<Input>(key % 2 ? pair >> 16 : pair));
        }
        const Input *row = value_in_memory(unit, p.key0 + key);
#pragma unroll
        for (int i = 0; i < PASS / 8; i += 2)
#pragma unroll
            for (int c = 0; c < 2; c++) {
                const int column = first_column + column_of(unit, i, c);
                if (column >= HEAD_DIM_V)
                    continue;
                const unsigned pair = pair_at<HEAD_DIM_V>(row + column, column), these = pair & not_finite(pair);
#pragma unroll
                for (int r = 0; r < 2; r++) {
                    const unsigned of_row = of_key >> 2 * r & 1 ? these : 0;
                    float &low = o[4 * i + 2 * r + c], &high = o[4 * i + 4 + 2 * r + c];
                    low = fmaf(weight[r], to_float(static_cast<Input>(of_row)), low);
                    high = fmaf(weight[r], to_float(static_cast<Input>(of_row >> 16)), high);
                }
            }
    }
}

// Q of the warp. //$ if repeat_holds_q
// Q of the warp is loaded when it is needed: no registers are left for it. //$ else
struct WarpQueries {
    //$ if repeat_holds_q
    Slice slices[SLICES];
    __device__ __forceinline__ explicit WarpQueries(const Unit &unit) {
#pragma unroll
        for (int i = 0; i < SLICES; i++)
            slices[i] = load_queries_slice(unit, i);
    }
    //$ else
    __device__ __forceinline__ explicit WarpQueries(const Unit &) {}
    //$ end
};

// P of 16 keys.
__device__ __forceinline__ Sixteen weigh_sixteen(const WarpQueries &q, const Unit &unit, const Rows &rows, float c, int key0) {
    float s[8] = {};
    //$ if repeat_holds_q
    Slice k[SLICES]; // loads of all of them are under way at a time
#pragma unroll
    for (int i = 0; i < SLICES; i++)
        k[i] = load_keys_slice(unit, key0, i);
#pragma unroll
    for (int i = 0; i < SLICES; i++)
        add_scores(s, q.slices[i], k[i]);
    //$ else
#pragma unroll(PASS < 32 ? 1 : 2)
    for (int i = 0; i < SLICES; i++)
        add_scores(s, load_queries_slice(unit, i), load_keys_slice(unit, key0, i));
    //$ end
    const unsigned seen = exp2_sixteen(s, unit, rows, c, key0);
    return {key0, {pack<BFLOAT16>(s[0], s[1]), pack<BFLOAT16>(s[2], s[3]), pack<BFLOAT16>(s[4], s[5]), pack<BFLOAT16>(s[6], s[7])}, seen};
}

// O (16, PASS) += P V of 16 keys. True when some value is not finite.
__device__ __forceinline__ bool add_sixteen(float (&o)[PASS / 2], const Sixteen &p, Values &v, const Unit &unit, int first_column) {
    const bool others = keep_finite(v);
    add_values(o, p.weights, v);
    if (others)
        add_not_finite(o, p, unit, first_column);
    return others;
}
