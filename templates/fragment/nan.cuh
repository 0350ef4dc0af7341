//$ needs bfloat16
// Returns a mask for two elements: all bits are set for an element that is NaN.
__device__ __forceinline__ unsigned nan_of(unsigned pair) {
    const unsigned signs = ((pair & 0x7fff7fff) + 0x007f007f) & 0x80008000; // carries into the sign bit only from NaN //$ if bfloat16
    const unsigned signs = ((pair & 0x7fff7fff) + 0x03ff03ff) & 0x80008000; // carries into the sign bit only from NaN //$ else
    return (signs >> 15) * 0xffff;
}
// Returns the pair of elements with 0 in place of NaN.
__device__ __forceinline__ unsigned without_nan(unsigned pair) { return pair & ~nan_of(pair); }
