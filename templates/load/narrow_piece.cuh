//$ include "load/pieces.cuh"

// There is no asynchronous copy of 2 bytes.
template <> __device__ __forceinline__ void copy_piece_of<2>(SharedAddress to, const Input *from, int wanted) {
    store_word(to, (wanted > 0 ? from[0] : 0) | static_cast<unsigned>(wanted > 2 ? from[1] : 0) << 16);
}
