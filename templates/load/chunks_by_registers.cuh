// Copies a chunk, of which the first `count` elements are in the tensor: none if it is 0 or less, all if it is 4 or more.
template <bool ALIGNED> __device__ __forceinline__ void copy_chunk(float4 *to, const Input *from, int count) {
    if constexpr (ALIGNED)
        *to = count > 0 ? load_chunk(from) : make_float4(0, 0, 0, 0);
    else
        *to = make_float4(count > 0 ? to_float(from[0]) : 0, count > 1 ? to_float(from[1]) : 0,
                          count > 2 ? to_float(from[2]) : 0, count > 3 ? to_float(from[3]) : 0);
}

__device__ __forceinline__ void copies_wait() {}
