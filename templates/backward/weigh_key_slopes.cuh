//$ needs step_m bfloat16 products_within_step

// dS^T = slope (dP^T - D) of queries 16 j to 16 j + 15, as operand of dK += dS^T Q.
template <bool MASKED>
__device__ __forceinline__ void weigh_sixteen_gradients(unsigned (&d_s)[4], const float (&d_weight)[STEP_M / 2],
                                                        const float (&slope)[STEP_M / 2], const Statistics &dots, int j) {
    float dot_of[4];
    dots.get(dot_of, j);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int first = 8 * j + 2 * i;
        float value[2];
#pragma unroll
        for (int e = 0; e < 2; e++) {
            value[e] = slope[first + e] * (d_weight[first + e] - dot_of[i / 2 * 2 + e]);
            value[e] = MASKED && slope[first + e] == 0 ? 0 : value[e]; // whatever dP of an unseen pair is
        }
        d_s[i] = pack<BFLOAT16>(value[0], value[1]);
    }
}

//$ if not products_within_step

// The same of all queries of a step.
template <bool MASKED>
__device__ __forceinline__ void weigh_key_gradients(unsigned (&d_s)[STEP_M / 16][4], const float (&d_weight)[STEP_M / 2],
                                                    const float (&slope)[STEP_M / 2], const Statistics &dots) {
#pragma unroll
    for (int j = 0; j < STEP_M / 16; j++)
        weigh_sixteen_gradients<MASKED>(d_s[j], d_weight, slope, dots, j);
}
//$ end
