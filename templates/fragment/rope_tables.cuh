// Angles from tables; positions beyond the tables use the first or last one.
template <typename Params>
__device__ __forceinline__ void angle_of(const Params &p, int position, int pair, float &cosine, float &sine) {
    long long row = min(max(position, 0), p.rope_rows - 1) * p.rope_row_stride;
    cosine = p.rope_cos[row + pair];
    sine = p.rope_sin[row + pair];
}
