//$ needs dtype block_n q_steps scores_registers bfloat16
//$ include "target/sm_90a.cuh"
//$ include "target/wgmma_scores.cuh"
//$ let scores_b = scores_registers + 1

#ifndef ATTILE_HOST // the host device has its own

// sum (64, N) = a (64, 16 STEPS) b (N, 16 STEPS)^T. A panel is 64 columns, 4 steps: 64 rows of a, N of b.
template <int N, int STEPS, bool OF_BFLOAT16>
__device__ void wgmma_ss_nt(float (&sum)[N / 2], unsigned long long a, unsigned long long b);
template <>
__device__ __forceinline__ void wgmma_ss_nt<BLOCK_N, Q_STEPS, BFLOAT16>(float (&sum)[BLOCK_N / 2], unsigned long long a,
                                                                        unsigned long long b) {
    asm volatile("{\n.reg .b64 a, b;\n"
                 //$ for step below q_steps
                 "add.s64 b, %${scores_b}, ${step / 4 * (block_n * 128 / 16) + step % 4 * 2};\n"
                 "add.s64 a, %${scores_registers}, ${step / 4 * (64 * 128 / 16) + step % 4 * 2};\n"
                 "wgmma.mma_async.sync.aligned.m64n${block_n}k16.f32.bf16.bf16 " ALL_OF_S //$ if dtype == bf16
                 "wgmma.mma_async.sync.aligned.m64n${block_n}k16.f32.f16.f16 " ALL_OF_S   //$ else
                 "a, b, ${min(step, 1)}, 1, 1, 0, 0;\n"
                 //$ end
                 "}"
                 :
                 //$ for i below block_n / 8 - 1
                 "+f"(sum[${4 * i}]), "+f"(sum[${4 * i + 1}]), "+f"(sum[${4 * i + 2}]), "+f"(sum[${4 * i + 3}]),
                 //$ end
                 "+f"(sum[${scores_registers - 4}]), "+f"(sum[${scores_registers - 3}]),
                 "+f"(sum[${scores_registers - 2}]), "+f"(sum[${scores_registers - 1}])
                 : "l"(a), "l"(b));
}

#endif
