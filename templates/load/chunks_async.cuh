//$ include "target/sm_80.cuh"

// Copies a chunk, of which the first `count` elements are in the tensor: none if it is 0 or less, all if it is 4 or more.
template <bool ALIGNED> __device__ __forceinline__ void copy_chunk(float4 *to, const Input *from, int count) {
    if constexpr (ALIGNED) {
        copy_async<16>(to, from, count > 0 ? 16 : 0);
    } else {
        for (int e = 0; e < 4; e++)
            copy_async<4>(reinterpret_cast<float *>(to) + e, from + e, e < count ? 4 : 0);
    }
}

__device__ __forceinline__ void copies_wait() { copy_async_wait(); }
