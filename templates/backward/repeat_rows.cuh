//$ needs algorithm dropout bfloat16
//$ include "backward/gradients.cuh"
//$ include "backward/pair_weight.cuh"
//$ include "backward/row_statistics_launch.cuh"
//$ include "backward/store_rows.cuh"
//$ include "fragment/not_finite.cuh"
//$ include "target/sm_80.cuh"

// NaN and infinity in rows of Q, K and dO. A pair that is not seen has P = 0 and dS = 0, but in a product of tiles 0 * NaN and
// 0 * infinity are NaN. So a warp whose sums are not all finite stores them, computes them again, and stores the results. It takes 16 rows
// of the other side at a time, by mma.sync from global memory. It multiplies the finite elements of these rows, and the others where they
// count. In Q and K the others never count: with them the score of a pair is not finite, so dS is NaN where it is not 0. Accumulators of
// mma have the layout of those of wgmma. Once all sums that were not finite are NaN again, the warp stops: what it has stored is right.

// Returns how many columns of a gradient are computed at a time: what a warp then holds must fit into the registers that its sums had.
__device__ constexpr int columns_of_pass(int dim) {
    return dim % 64 == 0 ? 64 : dim % 32 == 0 ? 32 : dim % 16 == 0 ? 16 : 8;
}

template <int COUNT> __device__ __forceinline__ bool wants_repeat(const float (&sum)[COUNT]) {
    float all = 0; // finite only if all terms are
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        all += sum[i];
    return __any_sync(0xffffffffu, !(fabsf(all) < INFINITY));
}

// Which of a thread's sums are not finite: bit i % 32 of word i / 32 for element i.
template <int COUNT> struct Nonfinite {
    unsigned words[(COUNT + 31) / 32];
};

// Finds the nonfinite elements of sums (16, 2 COUNT), of which `rows` rows exist.
template <int COUNT> __device__ __forceinline__ Nonfinite<COUNT> nonfinite_sums(const float (&sum)[COUNT], int rows) {
    const int row = opaque(static_cast<int>(threadIdx.x) % 32) / 4;
    const unsigned there = (row < rows ? 0x33333333 : 0) | (row + 8 < rows ? 0xcccccccc : 0);
    Nonfinite<COUNT> nonfinite = {};
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        nonfinite.words[i / 32] |= static_cast<unsigned>(!(fabsf(sum[i]) < INFINITY)) << i % 32;
#pragma unroll
    for (unsigned &word : nonfinite.words)
        word &= there;
    return nonfinite;
}

// Returns the bits of PASS columns from `column` on, a multiple of PASS.
template <int PASS, int COUNT> __device__ __forceinline__ unsigned nonfinite_in_pass(const Nonfinite<COUNT> &nonfinite, int column) {
    unsigned found = 0;
#pragma unroll
    for (int i = 0; i < (COUNT + 31) / 32; i++)
        found = column / 64 == i ? nonfinite.words[i] : found;
    return found >> column / 2 % 32 & (0xffffffff >> (32 - PASS / 2));
}

// True if all sums that `nonfinite` marks are NaN, in all lanes.
template <int COUNT> __device__ __forceinline__ bool all_nan(const float (&sum)[COUNT], unsigned nonfinite) {
    bool all = true;
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        all &= sum[i] != sum[i] || !(nonfinite >> i & 1);
    return __all_sync(0xffffffffu, all);
}

// Rows of a head. The last row stands in for a row that does not exist: it has no weight.
struct MemoryRows {
    const Input *first;
    long long stride;
    int count;

    __device__ __forceinline__ const Input *row(int i) const { return first + min(i, count - 1) * stride; }
    // The same rows from a column on.
    __device__ __forceinline__ MemoryRows from(int column) const { return {first + column, stride, count}; }
    // Two neighbouring elements.
    __device__ __forceinline__ unsigned pair(int i, int column) const {
        return *reinterpret_cast<const unsigned *>(row(i) + column);             //$ if algorithm == flash_async
        return row(i)[column] | static_cast<unsigned>(row(i)[column + 1]) << 16; //$ else
    }
    // Eight neighbouring elements, which TMA requires to be aligned.                                                         //$ if algorithm == flash_async
    __device__ __forceinline__ uint4 eight(int i, int column) const { return *reinterpret_cast<const uint4 *>(row(i) + column); } //$ if algorithm == flash_async
};

//$ include "backward/scores_by_chunks.cuh" if algorithm == flash_async else "backward/scores_by_pairs.cuh"

// sum (16, 2 COUNT) += weights (16, 16), rounded to 16 bits, times the finite elements of 16 rows. True if some elements are not finite.
template <int COUNT>
__device__ __forceinline__ bool add_finite(float (&sum)[COUNT], const float (&weights)[8], const MemoryRows &other, int other_row) {
    const int lane = opaque(static_cast<int>(threadIdx.x) % 32);
    const unsigned a[4] = {pack<BFLOAT16>(weights[0], weights[1]), pack<BFLOAT16>(weights[2], weights[3]),
                           pack<BFLOAT16>(weights[4], weights[5]), pack<BFLOAT16>(weights[6], weights[7])};
    unsigned odd = 0;
#pragma unroll
    for (int i = 0; i < COUNT / 4; i++) {
        unsigned b[2]; // of two rows, and of the two that are 8 further on
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int row = other_row + lane % 4 * 2 + 8 * half, column = 8 * i + lane / 4;
            const unsigned pair = other.row(row)[column] | static_cast<unsigned>(other.row(row + 1)[column]) << 16;
            odd |= not_finite(pair);
            b[half] = pair & ~not_finite(pair);
        }
        mma<BFLOAT16>(sum[4 * i], sum[4 * i + 1], sum[4 * i + 2], sum[4 * i + 3], a, b[0], b[1]);
    }
    return __any_sync(0xffffffffu, odd != 0);
}

// sum (16, 2 COUNT) += weights (16, 16) times the elements of 16 rows that are not finite, without weights of 0.
template <int COUNT>
__device__ __forceinline__ void add_not_finite(float (&sum)[COUNT], const float (&weights)[8], const MemoryRows &other,
                                               int other_row) {
    const int lane = opaque(static_cast<int>(threadIdx.x) % 32);
#pragma unroll 1
    for (int row = 0; row < 16; row++) {
        float weight[2]; // of this row, which another lane holds
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const float low = row % 2 ? weights[2 * r + 1] : weights[2 * r], high = row % 2 ? weights[2 * r + 5] : weights[2 * r + 4];
            weight[r] = __shfl_sync(0xffffffffu, row < 8 ? low : high, lane / 4 * 4 + row % 8 / 2);
        }
#pragma unroll
        for (int i = 0; i < COUNT / 4; i++) {
            const unsigned pair = other.pair(other_row + row, 8 * i + lane % 4 * 2), odd = not_finite(pair);
#pragma unroll
            for (int e = 0; e < 2; e++)
#pragma unroll
                for (int r = 0; r < 2; r++)
                    if ((odd >> 16 * e & 1) && weight[r] != 0)
                        sum[4 * i + 2 * r + e] = fmaf(weight[r], to_float(static_cast<Input>(pair >> 16 * e)), sum[4 * i + 2 * r + e]);
        }
    }
}

// S -> P and dP -> dS, of 16 queries and 16 keys; rows are keys or queries. Processes one element at a time while the others move up,
// since the code of masks and scores may be long.
template <bool KEYS_DOWN>
__device__ __forceinline__ void weigh_sixteen(float (&s)[8], float (&d_weight)[8], const attention_params &p, const Where &at,
                                              int index, int query0, int key0) {
    const int lane = opaque(static_cast<int>(threadIdx.x) % 32);
    constexpr int QUERIES = KEYS_DOWN ? 4 : 2; // queries per thread
    float lse2[QUERIES], dots[QUERIES];
#pragma unroll
    for (int i = 0; i < QUERIES; i++) {
        const int place = row_place(query0 + (KEYS_DOWN ? lane % 4 * 2 + i / 2 * 8 + i % 2 : lane / 4 + i * 8));
        lse2[i] = row_lse2(p, index)[place], dots[i] = row_dots(p, index)[place];
    }
#pragma unroll 1
    for (int i = 0; i < 8; i++) {
        const int down = lane / 4 + i / 2 % 2 * 8, across = lane % 4 * 2 + i / 4 * 8 + i % 2;
        const int query = query0 + (KEYS_DOWN ? across : down), key = key0 + (KEYS_DOWN ? down : across);
        const int of_thread = KEYS_DOWN ? i / 4 * 2 + i % 2 : i / 2 % 2;
        float lse = lse2[0], dot = dots[0];
#pragma unroll
        for (int j = 1; j < QUERIES; j++)
            lse = of_thread == j ? lse2[j] : lse, dot = of_thread == j ? dots[j] : dot;
        const PairWeight pair =
            pair_weight(p, at, min(query, p.len_q - 1), min(key, p.len_kv - 1), is_pair_seen(p, at, query, key), lse, s[0]);
        const bool kept = keeps_pair(dropout_of(p, index), query, key); //$ if dropout == 1
        d_weight[0] = kept ? p.dropout_factor * d_weight[0] : 0;        //$ if dropout == 1
        const float d_s = pair.slope == 0 ? 0 : pair.slope * (d_weight[0] - dot);
#pragma unroll
        for (int j = 0; j < 7; j++)
            s[j] = s[j + 1], d_weight[j] = d_weight[j + 1];
        s[7] = kept ? pair.weight : 0, d_weight[7] = d_s; //$ if dropout == 1
        s[7] = pair.weight, d_weight[7] = d_s;            //$ else
    }
}

// Heads of the inputs. index = batch * heads + head, or batch * kv_heads + kv_head.
__device__ __forceinline__ MemoryRows queries_in_memory(const attention_params &p, int index) {
    return {head_at(p, index).q, p.q_row_stride, p.len_q};
}
__device__ __forceinline__ MemoryRows d_o_in_memory(const attention_backward_params &params, int index) {
    return {gradients_at(params, index).d_o, params.d_o_row_stride, params.forward.len_q};
}
__device__ __forceinline__ MemoryRows keys_in_memory(const attention_params &p, int kv_index) {
    return {head_at(p, kv_index * (p.heads / p.kv_heads)).k, p.k_row_stride, p.len_kv};
}
__device__ __forceinline__ MemoryRows values_in_memory(const attention_params &p, int kv_index) {
    return {head_at(p, kv_index * (p.heads / p.kv_heads)).v, p.v_row_stride, p.len_kv};
}
