//$ needs dtype
// Returns a mask for two elements: all bits are set for an element that is not finite.
__device__ __forceinline__ unsigned not_finite(unsigned pair) {
    //$ if dtype == bf16
    unsigned signs = ((pair & 0x7fff7fff) + 0x00800080) & 0x80008000; // an exponent of all ones carries into the sign bit
    //$ else
    unsigned signs = ((pair & 0x7fff7fff) + 0x04000400) & 0x80008000;
    //$ end
    return (signs >> 15) * 0xffff;
}
