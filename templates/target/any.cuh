// any: what plain CUDA C++ lacks, for every GPU since compute capability 7.5. One instruction each, or as few as do the
// same; the host device has its own bodies under these names (runtime/host/device/).
#ifndef ATTILE_HOST

#ifndef INFINITY // NVRTC has no header that defines it
#define INFINITY __int_as_float(0x7f800000)
#endif

// The block's dynamic shared memory as one struct; its size is in the launch directive. Aligned as swizzles want it.
template <typename Shared> __device__ __forceinline__ Shared *dynamic_shared() {
    extern __shared__ __align__(1024) unsigned char dynamic_shared_bytes[];
    return reinterpret_cast<Shared *>(dynamic_shared_bytes);
}

// The float with the value of these IEEE half bits; exact.
__device__ __forceinline__ float half_to_float(unsigned short bits) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
}

// Bits of the nearest half, ties to even; 65520 and more become infinity.
__device__ __forceinline__ unsigned short float_to_half(float x) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}

// The float with the value of these bfloat16 bits: its upper half.
__device__ __forceinline__ float bfloat16_to_float(unsigned short bits) {
    return __int_as_float(static_cast<int>(static_cast<unsigned>(bits) << 16));
}

// Bits of the nearest bfloat16, ties to even, in integers because the instruction came with compute capability 8.0.
// Adding just under half of the last place, plus one when that place is odd, carries exactly when rounding goes up; a
// NaN must not carry into infinity, so it is cut off and made quiet instead.
__device__ __forceinline__ unsigned short float_to_bfloat16(float x) {
    unsigned bits = static_cast<unsigned>(__float_as_int(x));
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return static_cast<unsigned short>(bits >> 16 | 0x40u);
    return static_cast<unsigned short>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

// 2^x with about 2 units in the last place; results below 2^-126 become 0.
__device__ __forceinline__ float exp2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// log2(x), to about 2^-22 of the larger of it and 1.
__device__ __forceinline__ float log2_approx(float x) {
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// 1 / x, within one unit of its last digit; of what is infinite, 0.
__device__ __forceinline__ float reciprocal_approx(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Byte i of the result is that byte of `low` (0 to 3) or `high` (4 to 7) which digit i of `selector` names (prmt).
__device__ __forceinline__ unsigned permute_bytes(unsigned low, unsigned high, unsigned selector) {
    unsigned bytes;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(low), "r"(high), "r"(selector));
    return bytes;
}

// Of pairs of halves.
__device__ __forceinline__ unsigned subtract_halves(unsigned a, unsigned b) {
    unsigned difference;
    asm("sub.f16x2 %0, %1, %2;" : "=r"(difference) : "r"(a), "r"(b));
    return difference;
}
__device__ __forceinline__ unsigned multiply_halves(unsigned a, unsigned b) {
    unsigned product;
    asm("mul.f16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
    return product;
}

// No code, but a number that the compiler takes for a new one, and so does not move into other sums.
__device__ __forceinline__ int set_apart(int x) {
    asm volatile("" : "+r"(x));
    return x;
}

// Uniform over the warp, so that the compiler keeps it and what depends on it in uniform registers.
__device__ __forceinline__ int warp_index() { return __shfl_sync(0xffffffffu, threadIdx.x / 32, 0); }

__device__ __forceinline__ unsigned shared_address(const void *pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

#endif
