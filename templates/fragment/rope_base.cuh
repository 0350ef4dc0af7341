//$ needs half
//$ require half <= 128

// Angles from frequencies. In units of 2^-64 turns, the product with the position wraps at whole turns, so the angle is as exact
// at position 10^6 as at 1.
template <typename Params>
__device__ __forceinline__ void angle_of(const Params &p, int position, int pair, float &cosine, float &sine) {
    unsigned long long turns = static_cast<unsigned long long>(position) * p.rope_turns[pair];
    sincospif(static_cast<float>(static_cast<int>(turns >> 32)) * 0x1p-31f, &sine, &cosine);
}
