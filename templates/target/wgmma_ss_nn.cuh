//$ needs dtype output_columns output_registers p_steps bfloat16
//$ include "target/sm_90a.cuh"
//$ include "target/wgmma_output.cuh"
//$ let ss_nn_b = output_registers + 1

#ifndef ATTILE_HOST // the host device has its own

// sum (64, N) += a (64, 16 STEPS) b (16 STEPS, N), a in shared memory.
template <int N, int STEPS, bool OF_BFLOAT16>
__device__ void wgmma_ss_nn(float (&sum)[N / 2], unsigned long long a, unsigned long long b);
template <>
__device__ __forceinline__ void wgmma_ss_nn<OUTPUT_COLUMNS, P_STEPS, BFLOAT16>(float (&sum)[OUTPUT_COLUMNS / 2],
                                                                               unsigned long long a, unsigned long long b) {
    asm volatile("{\n.reg .b64 a, b;\n"
                 //$ for step below p_steps
                 "add.s64 b, %${ss_nn_b}, ${step * (16 * 128 / 16)};\n"
                 "add.s64 a, %${output_registers}, ${step / 4 * (64 * 128 / 16) + step % 4 * 2};\n"
                 "wgmma.mma_async.sync.aligned.m64n${output_columns}k16.f32.bf16.bf16 " ALL_OF_O //$ if dtype == bf16
                 "wgmma.mma_async.sync.aligned.m64n${output_columns}k16.f32.f16.f16 " ALL_OF_O   //$ else
                 "a, b, 1, 1, 1, 0, 1;\n"
                 //$ end
                 "}"
                 :
                 //$ for j below output_columns / 8 - 1
                 "+f"(sum[${4 * j}]), "+f"(sum[${4 * j + 1}]), "+f"(sum[${4 * j + 2}]), "+f"(sum[${4 * j + 3}]),
                 //$ end
                 "+f"(sum[${output_registers - 4}]), "+f"(sum[${output_registers - 3}]),
                 "+f"(sum[${output_registers - 2}]), "+f"(sum[${output_registers - 1}])
                 :
                 "l"(a), "l"(b));
}

#endif
