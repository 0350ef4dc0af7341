//$ include "target/sm_90_sums.cuh"

// Adds four floats to sums, or stores them if they are the first.
__device__ __forceinline__ void add_or_store(float *to, bool first, float a, float b, float c, float d) {
    if (first)
        *reinterpret_cast<float4 *>(to) = make_float4(a, b, c, d);
    else
        add_to_memory(to, a, b, c, d);
}
