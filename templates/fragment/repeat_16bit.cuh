//$ needs pack_gqa split_keys head_dim head_dim_v score bfloat16 algorithm mask block_m folded
//$ note With three or four consumers, S of the next tile leaves few registers.
//$ let repeat_holds_q = algorithm == flash_async and (block_m <= 128 or (mask != custom_mask and not folded))
//$ note Packed heads whose keys come in parts have none to spare, either.
//$ let repeat_loads_ahead = algorithm == flash_async and block_m <= 128 and (pack_gqa == 0 or split_keys == 0)
//$ include "fragment/not_finite.cuh"
//$ include "sequence/pair.cuh"

// 32 columns of the warp's rows of Q, or of 16 keys. S may sum over columns in any order, so a lane loads 8 neighbouring columns of rows
// lane / 4 and lane / 4 + 8.
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

// V (16, PASS) of the keys from key0 on, as a lane loads it: keys 2 (lane % 4) and the next, and the two keys 8 further on.
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

// Combines the lower elements of two pairs, or the upper ones.
__device__ __forceinline__ unsigned pair_of(unsigned first, unsigned second, bool upper) {
    return upper ? first >> 16 | (second & 0xffff0000) : (first & 0xffff) | second << 16;
}

// Records which of 8 columns of a row of V are NaN: bits 15 and 31 of nan[i] are set for their columns 2 i and 2 i + 1.
__device__ __forceinline__ void find_nan(unsigned (&nan)[4], const Input *row, int column) {
    unsigned pairs[4];
    load_columns<HEAD_DIM_V, 8>(pairs, row, column);
#pragma unroll
    for (int i = 0; i < 4; i++)
        nan[i] |= (pairs[i] & 0x7fff7fff) + 0x007f007f; // only a NaN, above infinity, carries into the sign bit //$ if bfloat16
        nan[i] |= (pairs[i] & 0x7fff7fff) + 0x03ff03ff; // only a NaN, above infinity, carries into the sign bit //$ else
}

// Sets the values that are not finite to 0. Returns the pairs of products (add_finite) that have such values, bit i for the i-th pair.
__device__ __forceinline__ unsigned keep_finite(Values &v) {
    unsigned found = 0;
#pragma unroll
    for (int i = 0; i < PASS / 16; i++) {
        unsigned others = 0;
#pragma unroll
        for (int key = 0; key < 4; key++) {
            unsigned &pair = v.pairs[2 * i / WIDTH][key][2 * i % WIDTH / 2];
            others |= not_finite(pair);
            pair &= ~not_finite(pair);
        }
        found |= __any_sync(0xffffffffu, others != 0) ? 1u << i : 0;
    }
    return found;
}

// P (16, 16) of 16 keys as an operand of mma, and which keys are seen, as exp2_sixteen returns it.
struct Sixteen {
    int key0;
    unsigned weights[4], seen;
};

// mma counts the values of 16 keys that are not finite: one number holds the count of each kind.
constexpr float INFINITE = 1, MINUS_INFINITE = 32, NOT_A_NUMBER = 1024;
__device__ __forceinline__ float count_of(float v) {
    return v == INFINITY ? INFINITE : v == -INFINITY ? MINUS_INFINITE : v != v ? NOT_A_NUMBER : 0;
}

// Returns what the counted values add to O.
__device__ __forceinline__ float sum_of(float count) {
    const bool plus = static_cast<int>(count) % static_cast<int>(MINUS_INFINITE) != 0;
    return count == 0 ? 0 : count < MINUS_INFINITE ? INFINITY : count < NOT_A_NUMBER && !plus ? -INFINITY : __int_as_float(0x7fffffff);
}

// O (16, PASS) += P V of the finite values.
__device__ __forceinline__ void add_finite(float (&o)[PASS / 2], const Sixteen &p, const Values &v) {
#pragma unroll
    for (int i = 0; i < PASS / 8; i++) {
        const int pair = i % WIDTH / 2;
        const unsigned (&of)[4][WIDTH / 2] = v.pairs[i / WIDTH];
        mma<BFLOAT16>(o[4 * i], o[4 * i + 1], o[4 * i + 2], o[4 * i + 3], p.weights, pair_of(of[0][pair], of[1][pair], i % 2),
                      pair_of(of[2][pair], of[3][pair], i % 2));
    }
}

// O (16, PASS) += P V of the values that are not finite, in these pairs of products, for the rows that see them. Where P is rounded to 0,
// or dropped, the product is NaN. This is rare, so a loop keeps O in local memory to use few registers, and loads V again.
__device__ __forceinline__ void add_not_finite(float (&o)[PASS / 2], const Sixteen &p, unsigned pairs, const Unit &unit, int first_column) {
    unsigned seen[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const unsigned bits = p.seen >> 2 * i, low = p.weights[i] & 0xffff, high = p.weights[i] >> 16;
        seen[i] = pack<BFLOAT16>(!(bits & 1) ? 0 : low ? 1 : NOT_A_NUMBER, !(bits & 2) ? 0 : high ? 1 : NOT_A_NUMBER);
    }
#pragma unroll 1
    for (int i = 0; i < PASS / 8; i++) {
        if (!(pairs >> i / 2 & 1))
            continue;
        const int column = min(first_column + i / WIDTH * 8 * WIDTH + unit.lane / 4 * WIDTH + i % WIDTH, HEAD_DIM_V - 1);
        float v[4], counts[4] = {};
#pragma unroll
        for (int j = 0; j < 4; j++)
            v[j] = count_of(to_float(value_in_memory(unit, p.key0 + unit.lane % 4 * 2 + j % 2 + j / 2 * 8)[column]));
        mma<BFLOAT16>(counts[0], counts[1], counts[2], counts[3], seen, pack<BFLOAT16>(v[0], v[1]), pack<BFLOAT16>(v[2], v[3]));
#pragma unroll
        for (int j = 0; j < 4; j++)
            o[4 * i + j] += sum_of(counts[j]);
    }
}

// Q of the warp, and K of the next 16 keys, as far as there are registers for them.
struct Operands {
    Slice q[SLICES]; //$ if repeat_holds_q
    Slice k[SLICES]; //$ if repeat_loads_ahead

    __device__ __forceinline__ Operands(const Unit &unit, int key0) {
        //$ if repeat_holds_q
#pragma unroll
        for (int i = 0; i < SLICES; i++)
            q[i] = load_queries_slice(unit, i);
        //$ end
        //$ if repeat_loads_ahead
#pragma unroll
        for (int i = 0; i < SLICES; i++)
            k[i] = load_keys_slice(unit, key0, i);
        //$ end
    }
};

// Returns P of the 16 keys from key0 on. `next`: first of the following 16 keys. `whole`: all rows see all of the 16 keys.
__device__ __forceinline__ Sixteen weigh_sixteen(Operands &operands, const Unit &unit, const Rows &rows, float c, int key0, int next,
                                                 bool whole) {
    float s[8] = {};
    //$ if repeat_holds_q
    Slice k[SLICES]; // the loads of all slices are in flight together //$ if not repeat_loads_ahead
#pragma unroll
    for (int i = 0; i < SLICES; i++)
        k[i] = load_keys_slice(unit, key0, i);       //$ if not repeat_loads_ahead
        add_scores(s, operands.q[i], operands.k[i]); //$ else
#pragma unroll
    for (int i = 0; i < SLICES; i++)
        add_scores(s, operands.q[i], k[i]);             //$ if not repeat_loads_ahead
        operands.k[i] = load_keys_slice(unit, next, i); //$ else
    //$ else
#pragma unroll(PASS < 32 ? 1 : 2)
    for (int i = 0; i < SLICES; i++)
        add_scores(s, load_queries_slice(unit, i), load_keys_slice(unit, key0, i));
    //$ end
    const unsigned seen = exp2_sixteen(s, unit, rows, c, key0, whole);
    return {key0, {pack<BFLOAT16>(s[0], s[1]), pack<BFLOAT16>(s[2], s[3]), pack<BFLOAT16>(s[4], s[5]), pack<BFLOAT16>(s[6], s[7])}, seen};
}

// O (16, PASS) += P V of 16 keys. True if some row does not see all of them and some value is not finite.
__device__ __forceinline__ bool add_sixteen(float (&o)[PASS / 2], const Sixteen &p, Values &v, const Unit &unit, int first_column, bool whole) {
    const unsigned others = whole ? 0 : keep_finite(v);
    add_finite(o, p, v);
    if (others != 0)
        add_not_finite(o, p, others, unit, first_column);
    return others != 0;
}
