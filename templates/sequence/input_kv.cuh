//$ needs dtype dtype_kv quantised
//$ include "sequence/element.cuh"
//$ require quantised == 1 or (dtype == fp32 and dtype_kv == fp32) or (dtype == fp16 and dtype_kv == fp16) or (dtype == bf16 and dtype_kv == bf16)

// Converts elements of K and V to float. An 8-bit element has the value of its bits, possibly times a scale.

//$ if dtype_kv == e4m3
// Its bits, read as those of a half, give 2^-8 of its value, subnormal or not. e4m3 has no infinity.
__device__ __forceinline__ float to_float(InputKv x) {
    const unsigned size = x & 0x7fu;
    const float value = half_to_float(static_cast<unsigned short>((x & 0x80u) << 8 | size << 7)) * 256;
    return size == 0x7f ? INFINITY - INFINITY : value;
}
//$ elif dtype_kv == e5m2
// The upper half of a half.
__device__ __forceinline__ float to_float(InputKv x) { return half_to_float(static_cast<unsigned short>(x << 8)); }
//$ elif dtype_kv == int8
__device__ __forceinline__ float to_float(InputKv x) { return static_cast<signed char>(x); }
//$ end
