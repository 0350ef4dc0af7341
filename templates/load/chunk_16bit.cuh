//$ include "sequence/element.cuh"

__device__ __forceinline__ float4 load_chunk(const Input *from) {
    const uint2 bits = *reinterpret_cast<const uint2 *>(from);
    return make_float4(to_float(static_cast<Input>(bits.x)), to_float(static_cast<Input>(bits.x >> 16)),
                       to_float(static_cast<Input>(bits.y)), to_float(static_cast<Input>(bits.y >> 16)));
}
