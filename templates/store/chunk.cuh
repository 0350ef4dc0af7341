//$ needs dtype_out
//$ include "sequence/element.cuh"

// Writes the first `count` elements of a chunk: none if it is 0 or less, all if it is 4 or more.
__device__ __forceinline__ void store_chunk(Output *to, float4 x, int count, bool chunks) {
    if (chunks && count > 0) {
        *reinterpret_cast<float4 *>(to) = x; //$ if dtype_out == fp32
        //$ if dtype_out != fp32
        *reinterpret_cast<uint2 *>(to) = make_uint2(to_output(x.x) | static_cast<unsigned>(to_output(x.y)) << 16,
                                                    to_output(x.z) | static_cast<unsigned>(to_output(x.w)) << 16);
        //$ end
        return;
    }
    if (count > 0)
        to[0] = to_output(x.x);
    if (count > 1)
        to[1] = to_output(x.y);
    if (count > 2)
        to[2] = to_output(x.z);
    if (count > 3)
        to[3] = to_output(x.w);
}
