//$ needs dtype output_columns output_registers p_steps bfloat16
//$ include "target/sm_90a.cuh"
//$ include "target/wgmma_output.cuh"
//$ let rs_nn_b = output_registers + 4 * p_steps

#ifndef ATTILE_HOST // the host device has its own

// sum (64, N) += a (64, 16 STEPS) b (16 STEPS, N), a in registers.
template <int N, int STEPS, bool OF_BFLOAT16>
__device__ void wgmma_rs_nn(float (&sum)[N / 2], const unsigned (&a)[STEPS][4], unsigned long long b);
template <>
__device__ __forceinline__ void wgmma_rs_nn<OUTPUT_COLUMNS, P_STEPS, BFLOAT16>(float (&sum)[OUTPUT_COLUMNS / 2],
                                                                               const unsigned (&a)[P_STEPS][4],
                                                                               unsigned long long b) {
    asm volatile("{\n.reg .b64 b;\n"
                 //$ for step below p_steps
                 "add.s64 b, %${rs_nn_b}, ${step * (16 * 128 / 16)};\n"
                 "wgmma.mma_async.sync.aligned.m64n${output_columns}k16.f32.bf16.bf16 " ALL_OF_O //$ if dtype == bf16
                 "wgmma.mma_async.sync.aligned.m64n${output_columns}k16.f32.f16.f16 " ALL_OF_O   //$ else
                 "{%${output_registers + 4 * step}, %${output_registers + 4 * step + 1}, "
                 "%${output_registers + 4 * step + 2}, %${output_registers + 4 * step + 3}}, b, 1, 1, 1, 1;\n"
                 //$ end
                 "}"
                 :
                 //$ for j below output_columns / 8 - 1
                 "+f"(sum[${4 * j}]), "+f"(sum[${4 * j + 1}]), "+f"(sum[${4 * j + 2}]), "+f"(sum[${4 * j + 3}]),
                 //$ end
                 "+f"(sum[${output_registers - 4}]), "+f"(sum[${output_registers - 3}]),
                 "+f"(sum[${output_registers - 2}]), "+f"(sum[${output_registers - 1}])
                 :
                 //$ for step below p_steps
                 "r"(a[$step][0]), "r"(a[$step][1]), "r"(a[$step][2]), "r"(a[$step][3]),
                 //$ end
                 "l"(b));
}

#endif
