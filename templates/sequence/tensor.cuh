// Rows of elements: (sequences or pages, heads, rows). Offsets are 64-bit: a cache may hold more than 2^31 elements.
template <typename Element> struct Tensor {
    Element *data;
    long long batch_stride, head_stride, row_stride;

    __device__ __forceinline__ Element *at(long long batch, int head, long long row) const {
        return data + batch * batch_stride + head * head_stride + row * row_stride;
    }
};
