//$ include "sequence/element.cuh"

__device__ __forceinline__ float4 load_chunk(const Input *from) { return *reinterpret_cast<const float4 *>(from); }
