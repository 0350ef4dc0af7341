//$ include "sequence/element.cuh"

constexpr int ELEMENT_BYTES = sizeof(Input);

// Returns the width in bytes of the widest pieces that rows of a tensor consist of: 16, 8, 4, or 2 for anything less.
template <typename Element = Input>
__device__ __forceinline__ int piece_bytes(const void *tensor, long long batch_stride, long long head_stride,
                                           long long row_stride) {
    constexpr int BYTES = sizeof(Element);
    const long long bits = reinterpret_cast<long long>(tensor) | BYTES * (batch_stride | head_stride | row_stride);
    return bits % 16 == 0 ? 16 : bits % 8 == 0 ? 8 : bits % 4 == 0 ? 4 : 2;
}
