// COUNT neighbouring elements, at most 16 bytes, copied by one instruction. Registers hold them as words, so they
// take no more space there than in memory.
template <typename Element, int COUNT> struct Vector {
    static constexpr int BYTES = COUNT * static_cast<int>(sizeof(Element));
    unsigned word[BYTES > 4 ? BYTES / 4 : 1];
};

template <int COUNT, typename Element> __device__ __forceinline__ Vector<Element, COUNT> vector_load(const Element *from) {
    Vector<Element, COUNT> x;
    if constexpr (x.BYTES == 16) {
        uint4 four = *reinterpret_cast<const uint4 *>(from);
        x.word[0] = four.x, x.word[1] = four.y, x.word[2] = four.z, x.word[3] = four.w;
    } else if constexpr (x.BYTES == 8) {
        uint2 two = *reinterpret_cast<const uint2 *>(from);
        x.word[0] = two.x, x.word[1] = two.y;
    } else if constexpr (x.BYTES == 4) {
        x.word[0] = *reinterpret_cast<const unsigned *>(from);
    } else {
        x.word[0] = *from;
    }
    return x;
}

template <int COUNT, typename Element>
__device__ __forceinline__ void vector_store(Element *to, const Vector<Element, COUNT> &x) {
    constexpr int BYTES = Vector<Element, COUNT>::BYTES;
    if constexpr (BYTES == 16)
        *reinterpret_cast<uint4 *>(to) = make_uint4(x.word[0], x.word[1], x.word[2], x.word[3]);
    else if constexpr (BYTES == 8)
        *reinterpret_cast<uint2 *>(to) = make_uint2(x.word[0], x.word[1]);
    else if constexpr (BYTES == 4)
        *reinterpret_cast<unsigned *>(to) = x.word[0];
    else if constexpr (BYTES == 2)
        *reinterpret_cast<unsigned short *>(to) = static_cast<unsigned short>(x.word[0]);
    else
        *reinterpret_cast<unsigned char *>(to) = static_cast<unsigned char>(x.word[0]);
}

__device__ __forceinline__ float float_of_bits(unsigned bits, float) { return __int_as_float(static_cast<int>(bits)); }
__device__ __forceinline__ float float_of_bits(unsigned bits, unsigned short) {
    return to_float(static_cast<unsigned short>(bits));
}
__device__ __forceinline__ unsigned bits_of(float x) { return static_cast<unsigned>(__float_as_int(x)); }
__device__ __forceinline__ unsigned bits_of(unsigned short x) { return x; }
__device__ __forceinline__ unsigned bits_of(unsigned char x) { return x; }

// Returns element i as a float.
template <typename Element, int COUNT> __device__ __forceinline__ float vector_get(const Vector<Element, COUNT> &x, int i) {
    constexpr int OF_WORD = 4 / sizeof(Element);
    return float_of_bits(x.word[i / OF_WORD] >> i % OF_WORD * 16, Element{});
}

// Inserts the bits of element i into its word. Elements of a word must be set in ascending order: the first one overwrites it.
template <typename Element, int COUNT>
__device__ __forceinline__ void vector_set(Vector<Element, COUNT> &x, int i, unsigned bits) {
    constexpr int BITS = 8 * sizeof(Element), OF_WORD = 32 / BITS;
    unsigned &word = x.word[i / OF_WORD];
    word = i % OF_WORD == 0 ? bits : word | bits << i % OF_WORD * BITS;
}
