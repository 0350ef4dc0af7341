// Returns number / divisor for numbers from 0 to 2^20. A division of integers takes 25 instructions that depend on each other, and a
// short launch waits for the code of each. The reciprocal is exact enough, since half of 1 / divisor lies between a quotient and the next.
__device__ __forceinline__ int quotient(int number, int divisor) {
    return static_cast<int>((number + 0.5f) * reciprocal_approx(static_cast<float>(divisor)));
}
