//$ needs target
//$ include "target/any.cuh" if target == any else "target/sm_80.cuh"

// Returns the bits of the nearest bfloat16, with one instruction where the target has it.
//$ if target == any
__device__ __forceinline__ unsigned short to_bfloat16(float x) { return float_to_bfloat16(x); }
//$ else
__device__ __forceinline__ unsigned short to_bfloat16(float x) { return static_cast<unsigned short>(pack<true>(x, 0.0f)); }
//$ end
