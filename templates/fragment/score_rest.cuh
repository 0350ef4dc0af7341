//$ needs score_rest block_n
//$ include "expression/formula.cuh"
//$ include "fragment/softmax_rows.cuh"
//$ include "fragment/unit.cuh"

// The rest: the term that a score adds to its part that is linear in s, or in a tanh of s. It is computed as an exponent of 2, minus
// the value that is subtracted from all scores of the row.

//$ if score_rest != alibi
__device__ __forceinline__ float score_rest(const attention_params &p, const Where &at, int q, int k) {
    //$ code rest
}
//$ end
//$ if score_rest != constant
// The growth of the rest from one key to the next, the same for a whole head.
__device__ __forceinline__ float score_slope(const attention_params &p, const Where &at) {
    //$ code slope
}
//$ end

// Returns the value that is subtracted from the scores of a row without an m: the rest of one of its keys, so that rounding at a large
// rest does not lose the differences between keys.
__device__ __forceinline__ float first_rest(const attention_params &p, const Where &at, int q, int k) {
    float rest = static_cast<float>(k - q) * score_slope(p, at); //$ if score_rest == alibi
    float rest = score_rest(p, at, q, k);                        //$ else
    return fabsf(rest) < INFINITY ? rest : 0;
}

// The rests of a thread's two rows, from its first key of a tile on.
struct Rest {
    float slope; //$ if score_rest != constant
    float first[2];

    // Returns the rest of the thread's element i of a tile.
    __device__ __forceinline__ float of(int i) const {
        return fmaf(static_cast<float>(8 * (i / 4) + i % 2), slope, first[i / 2 % 2]); //$ if score_rest != constant
        return first[i / 2 % 2];                                                       //$ else
    }
};

__device__ __forceinline__ void begin_rest(Rest &rest, const attention_params &p, const Where &at) {
    rest.slope = score_slope(p, at) * LOG2_E; //$ if score_rest != constant
}

// Sets the rest of row r, from key k on, minus `from`.
__device__ __forceinline__ void set_rest(Rest &rest, int r, const attention_params &p, const Where &at, int q, int k, float from) {
    rest.first[r] = fmaf(static_cast<float>(k - q), rest.slope, -from * LOG2_E); //$ if score_rest == alibi
    rest.first[r] = (score_rest(p, at, q, k) - from) * LOG2_E;                   //$ else
}

// Sets the rests of a tile whose scores are computed minus m, or minus a value close to them while m is not known (`search`).
__device__ __forceinline__ void set_rests(Rest &rest, const Unit &unit, const int &tile_n, const Rows &rows, bool search) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const int query = unit.position(unit.row() + 8 * r);
        float from = search ? first_rest(unit.p, unit.where, query, tile_n * BLOCK_N) : rows.max[r];
        set_rest(rest, r, unit.p, unit.where, query, tile_n * BLOCK_N + unit.lane % 4 * 2, from);
    }
}
