//$ include "load/pieces.cuh"

// There is no asynchronous copy of single bytes. Loads copy four of them, in place of a piece of 2 bytes.
template <> __device__ __forceinline__ void copy_piece_of<2>(SharedAddress to, const InputKv *from, int wanted) {
    unsigned word = 0;
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (wanted > i)
            word |= static_cast<unsigned>(from[i]) << 8 * i;
    store_word(to, word);
}
