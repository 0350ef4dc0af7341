//$ needs step_m

// dS^T = slope (dP^T - D), as operand of dK += dS^T Q.
template <bool MASKED>
__device__ __forceinline__ void weigh_key_gradients(unsigned (&d_s)[STEP_M / 16][4], float (&d_weight)[STEP_M / 2],
                                                    const float (&slope)[STEP_M / 2], const Statistics &dots) {
#pragma unroll
    for (int j = 0; j < STEP_M / 16; j++) {
        float dot_of[4];
        dots.get(dot_of, j);
#pragma unroll
        for (int i = 8 * j; i < 8 * j + 8; i++) {
            const float value = slope[i] * (d_weight[i] - dot_of[i % 8 / 4 * 2 + i % 2]);
            d_weight[i] = MASKED && slope[i] == 0 ? 0 : value; // whatever dP of an unseen pair is
        }
    }
    pack_values(d_s, d_weight);
}
