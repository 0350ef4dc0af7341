// Returns number / divisor, of numbers up to 2^20: of heads, of which a launch has no more, or of rows of a Q tile. A division of integers
// takes 25 instructions that depend on each other, and a short launch waits for the code of each. Quotients are 1 / divisor apart at
// least, and half of that exceeds the rounding errors of the reciprocal and the product.
__device__ __forceinline__ int quotient(int number, int divisor) {
    return static_cast<int>((number + 0.5f) * reciprocal_approx(static_cast<float>(divisor)));
}
