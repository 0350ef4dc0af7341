//$ needs dtype
// All bits of those of two elements that are not finite.
__device__ __forceinline__ unsigned not_finite(unsigned pair) {
    //$ if dtype == bf16
    unsigned signs = ((pair & 0x7fff7fff) + 0x00800080) & 0x80008000; // an exponent of ones carries over
    //$ else
    unsigned signs = ((pair & 0x7fff7fff) + 0x04000400) & 0x80008000;
    //$ end
    return (signs >> 15) * 0xffff;
}
