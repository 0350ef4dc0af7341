//$ needs algorithm family dependent_launches
//$ if family == attention_backward
//$ launch attention_tables grid (batch * (len_q + len_kv) + 2047) / 2048 block 128 shared 0 dependent params attention_params fills tables
//$ else
//$ launch attention_tables grid (batch * (len_q + len_kv) + 2047) / 2048 block 128 shared 0 dependent fills tables
//$ end
//$ include "expression/bounds.cuh"
//$ include "target/sm_90.cuh"

// Computes the tables before the attention kernel runs: one warp per run of TABLE_RUN elements.

__device__ __forceinline__ int value_of_bool(unsigned char x) { return x != 0; }
__device__ __forceinline__ int value_of_int(int x) { return x; }
__device__ __forceinline__ float value_of_fp32(float x) { return x; }
__device__ __forceinline__ float value_of_fp16(unsigned short x) { return half_to_float(x); }
__device__ __forceinline__ float value_of_bf16(unsigned short x) { return bfloat16_to_float(x); }

template <typename Value, typename Element, int DIMS, Value value_of(Element)>
__device__ __forceinline__ void make_table(const attention_params::attention_param &tensor) {
    const int length = tensor.size[DIMS - 1], runs = (length + TABLE_RUN - 1) / TABLE_RUN;
    const int lane = static_cast<int>(threadIdx.x) % 32, warps = static_cast<int>(blockDim.x) / 32;
    long long rows = 1;
    for (int d = 0; d < DIMS - 1; d++)
        rows *= tensor.size[d];
#pragma unroll 1
    for (long long run = static_cast<long long>(blockIdx.x) * warps + threadIdx.x / 32; run < rows * runs;
         run += static_cast<long long>(gridDim.x) * warps) {
        const Element *row = static_cast<const Element *>(tensor.data);
        long long rest = run / runs;
        for (int d = DIMS - 2; d >= 0; d--) {
            row += rest % tensor.size[d] * tensor.stride[d];
            rest /= tensor.size[d];
        }
        const int first = static_cast<int>(run % runs) * TABLE_RUN, last = min(first + TABLE_RUN, length) - 1;
        // lanes beyond the end read the last element again
        Bounds<Value> bounds = bounds_of(value_of(row[min(first + lane, last) * tensor.stride[DIMS - 1]]));
#pragma unroll 1
        for (int i = first + 32; i <= last; i += 32)
            bounds = join_bounds(bounds, bounds_of(value_of(row[min(i + lane, last) * tensor.stride[DIMS - 1]])));
#pragma unroll 1
        for (int step = 16; step > 0; step /= 2)
            bounds = join_bounds(bounds, {__shfl_xor_sync(0xffffffffu, bounds.least, step),
                                          __shfl_xor_sync(0xffffffffu, bounds.most, step)});
        if (lane == 0)
            static_cast<Bounds<Value> *>(tensor.table)[run] = bounds;
    }
}

//$ if algorithm == flash_async and family == attention_forward
extern "C" __global__ void __launch_bounds__(128) attention_tables(const __grid_constant__ attention_tma_params params) {
    const attention_params &p = params.attention;
    //$ else
extern "C" __global__ void __launch_bounds__(128) attention_tables(const __grid_constant__ attention_params p) {
    //$ end
    //$ if dependent_launches == 1
    grid_dependency_wait();
    launch_dependents();
    //$ end
    //$ code tables
}
