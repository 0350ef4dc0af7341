//$ needs half rope head_dim
//$ include "fragment/row_numbers.cuh"

// Rotary position embedding: pair i of a row is rotated by position times frequency i.

// The cosines and sines of a lane's pairs of elements.
template <int COLUMNS> struct Rotation {
    static constexpr int COUNT = RowPart<COLUMNS, HEAD_DIM>::COUNT;
    float cosine[COUNT][COLUMNS], sine[COUNT][COLUMNS];
};

template <int COLUMNS> __device__ __forceinline__ Rotation<COLUMNS> rotation_at(const append_kv_params &p, int position) {
    Rotation<COLUMNS> rotation;
#pragma unroll
    for (int i = 0; i < rotation.COUNT; i++)
        if (pair_of_lane(i) < HALF / COLUMNS)
#pragma unroll
            for (int e = 0; e < COLUMNS; e++)
                angle_of(p, position, pair_of_lane(i) * COLUMNS + e, rotation.cosine[i][e], rotation.sine[i][e]);
    return rotation;
}

template <int COLUMNS>
__device__ __forceinline__ void rotate(Numbers<COLUMNS, HEAD_DIM> &x, const Rotation<COLUMNS> &rotation) {
#pragma unroll
    for (int i = 0; i < x.COUNT; i++)
        if (pair_of_lane(i) < HALF / COLUMNS)
#pragma unroll
            for (int e = 0; e < COLUMNS; e++) {
                float &a = x.value[i][e], &b = x.value[i][COLUMNS + e];   //$ if rope == halves
                float &a = x.value[i][2 * e], &b = x.value[i][2 * e + 1]; //$ else
                float c = rotation.cosine[i][e], s = rotation.sine[i][e], turned = fmaf(a, c, -b * s);
                b = fmaf(b, c, a * s);
                a = turned;
            }
}
