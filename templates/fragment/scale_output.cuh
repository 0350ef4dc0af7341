//$ needs row_groups o_steps

__device__ __forceinline__ void scale_output(float (&o)[ROW_GROUPS][O_STEPS][4], float factor) {
#pragma unroll
    for (int n = 0; n < ROW_GROUPS; n++)
#pragma unroll
        for (int step = 0; step < O_STEPS; step++)
#pragma unroll
            for (float &x : o[n][step])
                x *= factor;
}
