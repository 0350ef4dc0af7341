//$ needs score
//$ include "expression/formula.cuh"
//$ if score == custom_score
// d score_of / d s.
template <typename Key>
__device__ __forceinline__ float derivative_of(const attention_params &p, const Where &at, int q, Key k, float s) {
    //$ code derivative
}
//$ end
