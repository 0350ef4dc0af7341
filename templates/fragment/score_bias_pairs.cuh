//$ include "expression/bias_key.cuh"
//$ include "fragment/unit.cuh"

// Applies the score expression to S (2 rows, 16 keys) of a thread, with the bias in `pair` in the order of ldmatrix. `key`: the thread's
// first key of the tile; `column`: the first of these 16 keys, counted from there; q: the positions of its rows.
__device__ __forceinline__ void score_sixteen(float *s, const unsigned (&pair)[4], const Unit &unit, const int (&q)[2], int key, int column) {
#pragma unroll
    for (int j = 0; j < 8; j++) {
        BiasKey k;
        set_key(k, key, column + j / 4 * 8 + j % 2);
        k.pair = pair[j / 2];
        s[j] = score_of(unit.p, unit.where, q[j / 2 % 2], k, unit.p.scale * s[j]);
    }
}
