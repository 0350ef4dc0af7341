//$ needs dtype block_n scores_registers bfloat16
//$ include "target/sm_90a.cuh"
//$ include "target/wgmma_scores.cuh"
//$ let panel_b = block_n / 2 + 1
//$ let panel_keep = block_n / 2 + 2

#ifndef ATTILE_HOST // the host device has its own

// sum (64, N) = a (64, 64) b (N, 64)^T, plus sum if KEEP: one panel of each operand, in shared memory.
template <int N, bool KEEP, bool OF_BFLOAT16>
__device__ __forceinline__ void wgmma_panel_ss_nt(float (&sum)[N / 2], unsigned long long a, unsigned long long b) {
    static_assert(N == BLOCK_N && OF_BFLOAT16 == BFLOAT16, "the instruction below");
    asm volatile("{\n.reg .b64 a, b;\n"
                 //$ for step below 4
                 "add.s64 a, %${block_n / 2}, ${2 * step};\n"
                 "add.s64 b, %${panel_b}, ${2 * step};\n"
                 "wgmma.mma_async.sync.aligned.m64n${block_n}k16.f32.bf16.bf16 " ALL_OF_S //$ if dtype == bf16
                 "wgmma.mma_async.sync.aligned.m64n${block_n}k16.f32.f16.f16 " ALL_OF_S   //$ else
                 "a, b, %${panel_keep}, 1, 1, 0, 0;\n" //$ if step == 0
                 "a, b, 1, 1, 1, 0, 0;\n"              //$ else
                 //$ end
                 "}"
                 :
                 //$ for i below block_n / 8 - 1
                 "+f"(sum[${4 * i}]), "+f"(sum[${4 * i + 1}]), "+f"(sum[${4 * i + 2}]), "+f"(sum[${4 * i + 3}]),
                 //$ end
                 "+f"(sum[${scores_registers - 4}]), "+f"(sum[${scores_registers - 3}]),
                 "+f"(sum[${scores_registers - 2}]), "+f"(sum[${scores_registers - 1}])
                 : "l"(a), "l"(b), "n"(KEEP ? 1 : 0));
}

#endif
