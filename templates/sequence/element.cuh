//$ needs dtype dtype_out quantised
//$ include "target/any.cuh"

// Element types of the tensors in memory. 16-bit types are their raw bits; arithmetic is always in float.

//$ if dtype == fp32
using Input = float;
__device__ __forceinline__ float to_float(Input x) { return x; }
//$ elif dtype == fp16
using Input = unsigned short; // IEEE half
__device__ __forceinline__ float to_float(Input x) { return half_to_float(x); }
//$ else
using Input = unsigned short; // bfloat16
__device__ __forceinline__ float to_float(Input x) { return bfloat16_to_float(x); }
//$ end

//$ if dtype_out == fp32
using Output = float;
__device__ __forceinline__ Output to_output(float x) { return x; }
//$ elif dtype_out == fp16
using Output = unsigned short; // IEEE half
__device__ __forceinline__ Output to_output(float x) { return float_to_half(x); }
//$ else
using Output = unsigned short; // bfloat16
__device__ __forceinline__ Output to_output(float x) { return float_to_bfloat16(x); }
//$ end

// An element of K and V.
using InputKv = unsigned char; // bits //$ if quantised == 1
using InputKv = Input;                 //$ else
