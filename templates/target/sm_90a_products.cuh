//$ needs dtype step_m step_n sum_columns sum_columns_v dq_columns d_weight_keys
//$ include "target/sm_90a_async.cuh"
#ifndef ATTILE_HOST

// --- wgmma, one step of 16 of the contracted dimension. Operand a is in shared memory (s) or registers (r), as (64, 16), or (16, 64)
// if A_TRANSPOSED. b is in shared memory (s), as (16, N), its rows being the contracted dimension, or (N, 16) if B_TRANSPOSED.

//$ for n below 33
//$ if n > 0 and 8 * n in [step_m, step_n, sum_columns, sum_columns_v, dq_columns, d_weight_keys]
#define SUM_OF_${8 * n} "{" \
                 //$ for i below n - 1
                 "%${4 * i}, %${4 * i + 1}, %${4 * i + 2}, %${4 * i + 3}, " \
                 //$ end
                 "%${4 * n - 4}, %${4 * n - 3}, %${4 * n - 2}, %${4 * n - 1}}, "
//$ end
//$ end

// Whether the functions below have a product of N columns.
template <int N> constexpr bool HAS_PRODUCT = false;
//$ for n below 33
//$ if n > 0 and 8 * n in [step_m, step_n, sum_columns, sum_columns_v, dq_columns, d_weight_keys]
template <> constexpr bool HAS_PRODUCT<${8 * n}> = true;
//$ end
//$ end

// sum (64, N) = a b, plus sum if KEEP.
template <int N, bool KEEP, bool A_TRANSPOSED, bool B_TRANSPOSED, bool OF_BFLOAT16>
__device__ __forceinline__ void wgmma_ss(float (&sum)[N / 2], unsigned long long a, unsigned long long b) {
    static_assert(HAS_PRODUCT<N>);
    //$ for n below 33
    //$ if n > 0 and 8 * n in [step_m, step_n, sum_columns, sum_columns_v, dq_columns, d_weight_keys]
    if constexpr (N == ${8 * n})
        asm volatile("wgmma.mma_async.sync.aligned.m64n${8 * n}k16.f32.bf16.bf16 " SUM_OF_${8 * n} //$ if dtype == bf16
        asm volatile("wgmma.mma_async.sync.aligned.m64n${8 * n}k16.f32.f16.f16 " SUM_OF_${8 * n}   //$ else
                     "%${4 * n}, %${4 * n + 1}, %${4 * n + 2}, 1, 1, %${4 * n + 3}, %${4 * n + 4};"
                     :
                     //$ for i below n - 1
                     "+f"(sum[${4 * i}]), "+f"(sum[${4 * i + 1}]), "+f"(sum[${4 * i + 2}]), "+f"(sum[${4 * i + 3}]),
                     //$ end
                     "+f"(sum[${4 * n - 4}]), "+f"(sum[${4 * n - 3}]), "+f"(sum[${4 * n - 2}]), "+f"(sum[${4 * n - 1}])
                     : "l"(a), "l"(b), "n"(KEEP ? 1 : 0), "n"(A_TRANSPOSED ? 1 : 0), "n"(B_TRANSPOSED ? 0 : 1));
    //$ end
    //$ end
}

template <int N, bool KEEP, bool B_TRANSPOSED, bool OF_BFLOAT16>
__device__ __forceinline__ void wgmma_rs(float (&sum)[N / 2], const unsigned (&a)[4], unsigned long long b) {
    static_assert(HAS_PRODUCT<N>);
    //$ for n below 33
    //$ if n > 0 and 8 * n in [step_m, step_n, sum_columns, sum_columns_v, dq_columns, d_weight_keys]
    if constexpr (N == ${8 * n})
        asm volatile("wgmma.mma_async.sync.aligned.m64n${8 * n}k16.f32.bf16.bf16 " SUM_OF_${8 * n} //$ if dtype == bf16
        asm volatile("wgmma.mma_async.sync.aligned.m64n${8 * n}k16.f32.f16.f16 " SUM_OF_${8 * n}   //$ else
                     "{%${4 * n}, %${4 * n + 1}, %${4 * n + 2}, %${4 * n + 3}}, %${4 * n + 4}, %${4 * n + 5}, 1, 1, %${4 * n + 6};"
                     :
                     //$ for i below n - 1
                     "+f"(sum[${4 * i}]), "+f"(sum[${4 * i + 1}]), "+f"(sum[${4 * i + 2}]), "+f"(sum[${4 * i + 3}]),
                     //$ end
                     "+f"(sum[${4 * n - 4}]), "+f"(sum[${4 * n - 3}]), "+f"(sum[${4 * n - 2}]), "+f"(sum[${4 * n - 1}])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(KEEP ? 1 : 0), "n"(B_TRANSPOSED ? 0 : 1));
    //$ end
    //$ end
}

#endif
