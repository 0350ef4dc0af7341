//$ needs dtype dtype_kv quantised
//$ include "sequence/element.cuh"
//$ require quantised == 1 or (dtype == fp32 and dtype_kv == fp32) or (dtype == fp16 and dtype_kv == fp16) or (dtype == bf16 and dtype_kv == bf16)

// Elements of K and V as numbers. Those of 8 bits have the value of their bits, times a scale or not.

//$ if dtype_kv == e4m3
// As a half it has 2^-8 of its value, subnormal or not. There is no infinity.
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
