//$ needs head_dim_v
//$ include "fragment/scores_from_memory_fp32.cuh"

// O (16, PASS) = P V in fp32, of the warp's rows, not yet divided by l. Always true: all keys are added.
__device__ __forceinline__ bool repeat_pass(float (&o)[PASS / 2], const Unit &unit, const Rows &rows, float c,
                                            int first_column, unsigned) {
#pragma unroll
    for (float &value : o)
        value = 0;
#pragma unroll 1
    for (KeysOfWarp keys(unit); keys.next();) {
        const int key0 = keys.key0;
        float s[8];
        scores_from_memory<16>(s, unit, key0);
        const unsigned seen = exp2_sixteen(s, unit, rows, c, key0);
#pragma unroll
        for (int i = 0; i < 8; i++) // the weights of two rows of one key stand in two elements
            if (i % 4 < 2)
#pragma unroll 1
                for (int lane = 0; lane < 4; lane++) {
                    const int from = unit.lane / 4 * 4 + lane;
                    const unsigned of_key = __shfl_sync(0xffffffffu, seen, from) >> i;
                    const float weight[2] = {__shfl_sync(0xffffffffu, s[i], from), __shfl_sync(0xffffffffu, s[i + 2], from)};
                    const Input *v = value_in_memory(unit, key0 + i / 4 * 8 + 2 * lane + i % 2);
#pragma unroll
                    for (int j = 0; j < PASS / 2; j++) {
                        const int column = first_column + column_of(unit, j / 4, j % 2);
                        if (column < HEAD_DIM_V && (of_key >> j / 2 % 2 * 2 & 1))
                            o[j] = fmaf(weight[j / 2 % 2], v[column], o[j]);
                    }
                }
    }
    return true;
}
