// any: operations that plain CUDA C++ lacks, for every GPU since compute capability 7.5. Each is one instruction, or the
// fewest that do the same; the host device has its own bodies under these names (runtime/host/device/).
#ifndef ATTILE_HOST

#ifndef INFINITY // NVRTC has no header that defines it
#define INFINITY __int_as_float(0x7f800000)
#endif

// Returns the block's dynamic shared memory as one struct; its size is in the launch directive. Aligned as swizzles require.
template <typename Shared> __device__ __forceinline__ Shared *dynamic_shared() {
    extern __shared__ __align__(1024) unsigned char dynamic_shared_bytes[];
    return reinterpret_cast<Shared *>(dynamic_shared_bytes);
}

// Returns the float with the value of these IEEE half bits; exact.
__device__ __forceinline__ float half_to_float(unsigned short bits) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
}

// Returns the bits of the nearest half, ties to even; 65520 and more become infinity.
__device__ __forceinline__ unsigned short float_to_half(float x) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}

// Returns the float whose upper half are these bfloat16 bits; exact.
__device__ __forceinline__ float bfloat16_to_float(unsigned short bits) {
    return __int_as_float(static_cast<int>(static_cast<unsigned>(bits) << 16));
}

// Returns the bits of the nearest bfloat16, ties to even, in integer arithmetic because the instruction came with compute
// capability 8.0. Adding just under half a unit in the last place, plus one if that place is odd, carries exactly when
// rounding goes up. A NaN must not carry into infinity, so it is truncated and made quiet instead.
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

// log2(x), with an error of about 2^-22 times the larger of the result and 1.
__device__ __forceinline__ float log2_approx(float x) {
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// 1 / x, within one unit in the last place; 0 for infinite x.
__device__ __forceinline__ float reciprocal_approx(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Byte i of the result is the byte of `low` (0 to 3) or `high` (4 to 7) that digit i of `selector` selects (prmt).
__device__ __forceinline__ unsigned permute_bytes(unsigned low, unsigned high, unsigned selector) {
    unsigned bytes;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(low), "r"(high), "r"(selector));
    return bytes;
}

// Pairs of halves.
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

// Emits no instruction. The compiler treats the result as a new number, so it does not fold it into other sums.
__device__ __forceinline__ int opaque(int x) {
    asm volatile("" : "+r"(x));
    return x;
}

// Uniform over the warp, so that the compiler keeps it and what depends on it in uniform registers.
__device__ __forceinline__ int warp_index() { return __shfl_sync(0xffffffffu, threadIdx.x / 32, 0); }

__device__ __forceinline__ unsigned shared_address(const void *pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

#endif
