//$ needs half rope rope_from row_groups bfloat16
//$ include "sequence/new_tokens.cuh"
//$ include "fragment/rope_pair.cuh"
//$ include "fragment/rope_$rope_from.cuh"
//$ include "load/queries_in_registers.cuh"
//$ note A lane holds both elements of a pair.
//$ require half % 8 == 0 if rope == halves

// Rotates Q of a Q tile, each row by the position of its query.
__device__ __forceinline__ void rotate_queries(const attention_params &all, const attention_params &p, const Tile &tile, Queries &q) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < ROW_GROUPS; n++) {
        const int position = keys_before(p) + row_of(p, tile, 8 * n + lane / 4).query;
        //$ if rope == halves
#pragma unroll
        for (int i = 0; i < HALF / 8; i++) {
            unsigned &a = q.pairs[n][i / 2][i % 2], &b = q.pairs[n][(i + HALF / 8) / 2][(i + HALF / 8) % 2];
            float x[2], y[2];
#pragma unroll
            for (int e = 0; e < 2; e++) {
                x[e] = to_float(static_cast<Input>(a >> 16 * e)), y[e] = to_float(static_cast<Input>(b >> 16 * e));
                float cosine, sine;
                angle_of(all, position, 8 * i + lane % 4 * 2 + e, cosine, sine);
                turn(x[e], y[e], cosine, sine);
            }
            a = pack<BFLOAT16>(x[0], x[1]), b = pack<BFLOAT16>(y[0], y[1]);
        }
        //$ else
#pragma unroll
        for (int i = 0; i < (HALF + 3) / 4; i++) {
            if (4 * i + lane % 4 >= HALF)
                continue;
            unsigned &pair = q.pairs[n][i / 2][i % 2];
            float x = to_float(static_cast<Input>(pair)), y = to_float(static_cast<Input>(pair >> 16)), cosine, sine;
            angle_of(all, position, 4 * i + lane % 4, cosine, sine);
            turn(x, y, cosine, sine);
            pair = pack<BFLOAT16>(x, y);
        }
        //$ end
    }
}
