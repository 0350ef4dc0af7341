//$ needs dtype dtype_out head_dim block_n q_in score_bias
//$ include "target/sm_90a_async.cuh"
//$ include "target/sm_90a_copies.cuh" if score_bias == bias_rows

// S on the tensor cores: a wgmma wrapper has all k steps of its product.
//$ let bfloat16 = dtype == bf16
//$ let bfloat16_out = dtype_out == bf16
#ifndef ATTILE_HOST

//$ let q_steps = (head_dim + 15) / 16
//$ let scores_registers = block_n / 2
// Names: operand a in shared memory (s) or registers (r); operand b in shared memory (s); the layout of b: its rows are the
// contracted dimension (n), or it is transposed (t). Rows are contiguous in shared memory. Each wrapper is one asm statement for
// all STEPS of 16 of the contracted dimension: every statement names all accumulators, and compilers are slow on those.
//$ if q_in == q_registers
template <int N, int STEPS, bool OF_BFLOAT16>
__device__ void wgmma_rs_nt(float (&sum)[N / 2], const unsigned (&a)[STEPS][4], unsigned long long b);
//$ else
template <int N, int STEPS, bool OF_BFLOAT16>
__device__ void wgmma_ss_nt(float (&sum)[N / 2], unsigned long long a, unsigned long long b);
//$ end

#define ALL_OF_S "{" \
                 //$ for i below block_n / 8 - 1
                 "%${4 * i}, %${4 * i + 1}, %${4 * i + 2}, %${4 * i + 3}, " \
                 //$ end
                 "%${scores_registers - 4}, %${scores_registers - 3}, %${scores_registers - 2}, %${scores_registers - 1}}, "

// sum (64, N) = a (64, 16 STEPS) b (N, 16 STEPS)^T. A panel is 64 columns, 4 steps: 64 rows of a, N of b.
//$ if q_in == q_registers
//$ let scores_b = scores_registers + 4 * q_steps
template <>
__device__ __forceinline__ void wgmma_rs_nt<BLOCK_N, Q_STEPS, BFLOAT16>(float (&sum)[BLOCK_N / 2],
                                                                        const unsigned (&a)[Q_STEPS][4],
                                                                        unsigned long long b) {
    asm volatile("{\n.reg .b64 b;\n"
//$ else
//$ let scores_b = scores_registers + 1
template <>
__device__ __forceinline__ void wgmma_ss_nt<BLOCK_N, Q_STEPS, BFLOAT16>(float (&sum)[BLOCK_N / 2], unsigned long long a,
                                                                        unsigned long long b) {
    asm volatile("{\n.reg .b64 a, b;\n"
//$ end
                 //$ for step below q_steps
                 "add.s64 b, %${scores_b}, ${step / 4 * (block_n * 128 / 16) + step % 4 * 2};\n"
                 //$ if q_in == q_shared
                 "add.s64 a, %${scores_registers}, ${step / 4 * (64 * 128 / 16) + step % 4 * 2};\n"
                 //$ end
                 "wgmma.mma_async.sync.aligned.m64n${block_n}k16.f32.bf16.bf16 " ALL_OF_S //$ if dtype == bf16
                 "wgmma.mma_async.sync.aligned.m64n${block_n}k16.f32.f16.f16 " ALL_OF_S   //$ else
                 //$ if q_in == q_registers
                 "{%${scores_registers + 4 * step}, %${scores_registers + 4 * step + 1}, "
                 "%${scores_registers + 4 * step + 2}, %${scores_registers + 4 * step + 3}}, b, ${min(step, 1)}, 1, 1, 0;\n"
                 //$ else
                 "a, b, ${min(step, 1)}, 1, 1, 0, 0;\n"
                 //$ end
                 //$ end
                 "}"
                 :
                 //$ for i below block_n / 8 - 1
                 "+f"(sum[${4 * i}]), "+f"(sum[${4 * i + 1}]), "+f"(sum[${4 * i + 2}]), "+f"(sum[${4 * i + 3}]),
                 //$ end
                 "+f"(sum[${scores_registers - 4}]), "+f"(sum[${scores_registers - 3}]),
                 "+f"(sum[${scores_registers - 2}]), "+f"(sum[${scores_registers - 1}])
                 :
                 //$ if q_in == q_registers
                 //$ for step below q_steps
                 "r"(a[$step][0]), "r"(a[$step][1]), "r"(a[$step][2]), "r"(a[$step][3]),
                 //$ end
                 "l"(b));
                 //$ else
                 "l"(a), "l"(b));
                 //$ end
}

#endif
