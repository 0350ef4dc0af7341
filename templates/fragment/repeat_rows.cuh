//$ needs dtype head_dim_v columns_v mask score dropout block_n page_size mask_lookup score_form
//$ include "fragment/query_in_memory.cuh"
//$ include "fragment/paged_keys_in_memory.cuh" if page_size > 0 else "fragment/keys_in_memory.cuh"
//$ include "fragment/softmax_rows.cuh"
//$ include "fragment/repeat_pass.cuh"
//$ let short_formulas = mask_lookup == no_lookup and score_form in [plain_score, linear] and dropout == 0

// Recomputes rows of O. In a K/V tile that a row sees in part, P = 0 for the masked keys; but 0 * NaN and 0 * infinity are NaN, so
// a NaN or infinity in the V of a masked key reaches O. The warp recomputes its 16 rows, 16 keys at a time, by mma.sync from
// global memory. m and l are correct, so they stay.

// True if some element of O in this thread's row r is not finite.
__device__ __forceinline__ bool has_nonfinite(const float (&o)[COLUMNS_V / 2], int r) {
    bool nonfinite = false;
#pragma unroll
    for (int first = 0; first < COLUMNS_V / 2; first += PASS / 2) {
        float even = 0, odd = 0; // a sum is finite only if all its terms are
#pragma unroll
        for (int i = first + 2 * r; i < first + PASS / 2 && i < COLUMNS_V / 2; i += 4)
            even += o[i], odd += o[i + 1];
        nonfinite |= !(fabsf(even + odd) < INFINITY);
    }
    return nonfinite;
}

// True if one of the warp's rows of O is not finite although its l is.
__device__ __forceinline__ bool wants_repeat(const float (&o)[COLUMNS_V / 2], const Rows &rows) {
    unsigned some = 0;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        unsigned odd = __ballot_sync(0xffffffffu, has_nonfinite(o, r)); // lanes 4 g to 4 g + 3 hold row g
        unsigned right = __ballot_sync(0xffffffffu, !(rows.sum[r] < INFINITY));
        odd |= odd >> 1, right |= right >> 1;
        odd |= odd >> 2, right |= right >> 2;
        some |= odd & ~right & 0x11111111;
    }
    return some != 0;
}

// Columns in which O is not finite in some row of the warp: bit i of word c stands for column 8 i + 2 (lane % 4) + c.
struct NonfiniteColumns {
    unsigned words[2];
};
__device__ __forceinline__ NonfiniteColumns nonfinite_columns(const float (&o)[COLUMNS_V / 2]) {
    NonfiniteColumns nonfinite = {};
#pragma unroll
    for (int i = 0; i < COLUMNS_V / 2; i++)
        nonfinite.words[i % 2] |= static_cast<unsigned>(!(fabsf(o[i]) < INFINITY)) << i / 4;
#pragma unroll
    for (unsigned &word : nonfinite.words)
#pragma unroll
        for (int lanes = 4; lanes < 32; lanes *= 2) // rows
            word |= __shfl_xor_sync(0xffffffffu, word, lanes);
    return nonfinite;
}

// Returns which of them are this lane's columns of a pass: bit 2 i + c for elements 4 i + c and 4 i + 2 + c of its O.
__device__ __forceinline__ unsigned nonfinite_in_pass(const NonfiniteColumns &nonfinite, const Unit &unit, int first_column) {
    unsigned found = 0;
#pragma unroll
    for (int i = 0; i < PASS / 4; i++) {
        const int column = first_column + column_of(unit, i / 2, i % 2);
        const unsigned even = __shfl_sync(0xffffffffu, nonfinite.words[0], column % 8 / 2);
        const unsigned odd = __shfl_sync(0xffffffffu, nonfinite.words[1], column % 8 / 2);
        found |= ((column % 2 ? odd : even) >> column / 8 & 1) << i;
    }
    return found;
}

struct WalkedTile {
    int key0;   // its first key
    bool whole; // all rows of the unit see all its keys
};

// Moves to the next K/V tile of a walk. False if there are no more. The code that follows branches on the result of a reduction, which the
// compiler knows to be the same in all lanes. Otherwise wgmma descriptors would leave uniform registers, and other kernels would spill.
__device__ __forceinline__ bool next_tile_of(KeyWalk &walk, const Unit &unit, WalkedTile &tile) {
    const int next = walk.left > 0 ? next_keys(unit.p, unit.tile, unit.index, walk) : -1;
    const int code = __reduce_max_sync(0xffffffffu, 2 * next + (walk.whole ? 1 : 0));
    tile = {code / 2 * BLOCK_N, code % 2 != 0};
    return code >= 0;
}

// The keys that rows of the warp see, 16 at a time, in the K/V tiles that its unit visits.
struct KeysOfWarp {
    const Unit &unit;
    KeyWalk walk;
    WalkedTile tile;
    int first, end; // no row sees a key outside [first, end)
    int key0;       // first of the 16 keys

    __device__ __forceinline__ explicit KeysOfWarp(const Unit &unit)
        : unit(unit), walk(walk_of_unit(unit.p, unit.tile, unit.index)), tile{-BLOCK_N, false}, first(unit.p.len_kv), end(0), key0(0) {
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
        first = __reduce_min_sync(0xffffffffu, first / 16 * 16);
        end = __reduce_max_sync(0xffffffffu, end);
    }

    // Moves to the next 16 keys. False if there are no more.
    __device__ __forceinline__ bool next() {
        key0 += 16;
        while (key0 >= min(end, tile.key0 + BLOCK_N)) {
            if (!next_tile_of(walk, unit, tile))
                return false;
            key0 = max(first, tile.key0);
        }
        return true;
    }
};

// Replaces S (16, 16) of the keys from key0 on by its weights. Returns which elements are of keys that are seen: bit i for s[i]. `whole`:
// all of them.
__device__ __forceinline__ unsigned exp2_sixteen(float (&s)[8], const Unit &unit, const Rows &rows, float c, int key0, bool whole) {
    const attention_params &p = unit.p;
    unsigned seen = 0;
    const int position[2] = {unit.position(unit.row()), unit.position(unit.row() + 8)}; //$ if mask == custom_mask or score == custom_score
    const int end[2] = {keys_end(p, unit.at(unit.row()).query + 1), keys_end(p, unit.at(unit.row() + 8).query + 1)}; //$ if mask != custom_mask
    const float max[2] = {finite_max(rows.max[0]), finite_max(rows.max[1])};
    const Dropout dropout = dropout_of(p, static_cast<long long>(unit.tile.batch) * p.heads + unit.tile.head); //$ if dropout == 1
    // Processes one element at a time and moves the others up, since masks and scores may be long. //$ if not short_formulas
#pragma unroll   //$ if short_formulas
#pragma unroll 1 //$ else
    for (int i = 0; i < 8; i++) {
        const int r = i / 2 % 2, key = key0 + i / 4 * 8 + unit.lane % 4 * 2 + i % 2;
        float score = s[0];
        const bool sees_it = whole || (key < p.len_kv && sees(p, unit.where, r ? position[1] : position[0], min(key, p.len_kv - 1))); //$ if mask == custom_mask
        const bool sees_it = whole || key < (r ? end[1] : end[0]);                                                                    //$ else
        score = score_of(p, unit.where, r ? position[1] : position[0], min(key, p.len_kv - 1), p.scale * score); //$ if score == custom_score
#pragma unroll
        for (int j = 0; j < 7; j++)
            s[j] = s[j + 1];
        s[7] = sees_it ? exp2_approx(__fsub_rn(score, r ? max[1] : max[0]) * c) : 0;
        s[7] = keeps_pair(dropout, unit.at(unit.row() + 8 * r).query, key) ? s[7] : 0; //$ if dropout == 1
        seen |= static_cast<unsigned>(sees_it) << i;
    }
    return seen;
}

//$ include "fragment/repeat_fp32.cuh" if dtype == fp32 else "fragment/repeat_16bit.cuh"

// Removes the columns that have a NaN in a K/V tile seen by all rows of the unit: NaN is the correct result there. The search costs
// a small part of recomputing the tile, and ends at the first of these tiles in which it finds none.
__device__ __forceinline__ void take_out_nan(NonfiniteColumns &nonfinite, const Unit &unit) {
    constexpr int LANES = HEAD_DIM_V > 128 ? 32 : HEAD_DIM_V > 64 ? 16 : 8; // per row, with 8 columns each
    const int column = unit.lane % LANES * 8;
    KeyWalk walk = walk_of_unit(unit.p, unit.tile, unit.index);
    WalkedTile tile;
    bool more = true;
#pragma unroll 1
    while (more && next_tile_of(walk, unit, tile)) {
        if (!tile.whole)
            continue;
        unsigned nan[4] = {};
        if (column < HEAD_DIM_V)
#pragma unroll 8
            for (int key = unit.lane / LANES; key < BLOCK_N; key += 32 / LANES)
                find_nan(nan, value_in_memory(unit, tile.key0 + key) + column, column);
        unsigned columns = 0; // bit j: column `column` + j has a NaN
#pragma unroll
        for (int j = 0; j < 8; j++)
            columns |= (nan[j / 2] >> (j % 2 ? 31 : 15) & 1) << j;
#pragma unroll
        for (int lanes = LANES; lanes < 32; lanes *= 2)
            columns |= __shfl_xor_sync(0xffffffffu, columns, lanes);
        NonfiniteColumns with_nan = {};
#pragma unroll
        for (int i = 0; i < (HEAD_DIM_V + 7) / 8; i++) {
            const unsigned pair = __shfl_sync(0xffffffffu, columns, i) >> unit.lane % 4 * 2;
            with_nan.words[0] |= (pair & 1) << i, with_nan.words[1] |= (pair >> 1 & 1) << i;
        }
        more = __any_sync(0xffffffffu, (nonfinite.words[0] & with_nan.words[0]) != 0 || (nonfinite.words[1] & with_nan.words[1]) != 0);
        nonfinite.words[0] &= ~with_nan.words[0], nonfinite.words[1] &= ~with_nan.words[1];
    }
}

// True if these columns (nonfinite_in_pass) are NaN in all of the warp's rows.
__device__ __forceinline__ bool all_nan(const float (&o)[PASS / 2], unsigned columns) {
    bool all = true;
#pragma unroll
    for (int i = 0; i < PASS / 2; i++)
        all &= o[i] != o[i] || !(columns >> (i / 4 * 2 + i % 2) & 1);
    return __all_sync(0xffffffffu, all);
}

// O (16, HEAD_DIM_V) of the warp's rows, in passes of PASS columns, not yet divided by l. It is in local memory: registers hold only one
// pass.
using RepeatedOutput = float[PASSES][PASS / 2];

// Computes O = P V in the passes that have columns which are not finite. Returns these passes, bit i for pass i, except those in which
// these columns are NaN in all rows, as they already were. m is that of all keys, so 16 keys do not depend on those before them.
__device__ __forceinline__ unsigned repeat_passes(RepeatedOutput &o, const Unit &unit, const Rows &rows, float c, const NonfiniteColumns &nonfinite) {
    unsigned passes = 0;
#pragma unroll 1
    for (int pass = 0; pass < PASSES; pass++) {
        passes |= static_cast<unsigned>(__any_sync(0xffffffffu, nonfinite_in_pass(nonfinite, unit, pass * PASS) != 0)) << pass;
#pragma unroll
        for (float &value : o[pass])
            value = 0;
    }
    KeysOfWarp keys(unit);
    bool more = keys.next();
    Operands operands(unit, keys.key0);
#pragma unroll 1
    while (passes != 0 && more) {
        const int key0 = keys.key0;
        const bool whole = keys.tile.whole;
        more = keys.next();
        int pass = __ffs(static_cast<int>(passes)) - 1;
        Values v;
        if (VALUES_AHEAD)
            v = load_values(unit, key0, pass * PASS);
        const Sixteen p = weigh_sixteen(operands, unit, rows, c, key0, keys.key0, whole);
        if (!VALUES_AHEAD)
            v = load_values(unit, key0, pass * PASS);
#pragma unroll 1
        for (unsigned left = passes; left != 0;) {
            left &= left - 1;
            const int next = left != 0 ? __ffs(static_cast<int>(left)) - 1 : pass;
            Values of_next = {};
            if (left != 0)
                of_next = load_values(unit, key0, next * PASS);
            if (add_sixteen(o[pass], p, v, unit, pass * PASS, whole) && all_nan(o[pass], nonfinite_in_pass(nonfinite, unit, pass * PASS)))
                passes &= ~(1u << pass);
            v = of_next, pass = next;
        }
    }
    return passes;
}
