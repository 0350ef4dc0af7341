//$ needs dtype dtype_out head_dim head_dim_v block_n p_in q_in score_bias
//$ include "target/sm_80.cuh"

// sm_90a: wrappers of one instruction each; a wgmma wrapper has all k steps of its product. The host device has its own bodies
// under these names.
//$ let bfloat16 = dtype == bf16
//$ let bfloat16_out = dtype_out == bf16

using Barrier = unsigned long long; // 8 bytes of shared memory, opaque

#ifndef ATTILE_HOST

// --- indices: uniform over the warp, so that the compiler keeps them and what depends on them in uniform registers

__device__ __forceinline__ int warpgroup_index() { return __shfl_sync(0xffffffffu, threadIdx.x / 128, 0); }

// True in one lane of the warp. The warp must be converged.
__device__ __forceinline__ bool elect_one() {
    unsigned elected;
    asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(elected));
    return elected;
}

// --- setmaxnreg: the four warps of a warpgroup release registers, or wait for them, until each thread has COUNT

template <int COUNT> __device__ __forceinline__ void registers_release() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}
template <int COUNT> __device__ __forceinline__ void registers_acquire() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

// --- named barriers 1 .. 15: of `threads` threads, some wait and some only arrive

__device__ __forceinline__ void named_barrier_sync(int id, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ void named_barrier_arrive(int id, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// --- mbarriers in shared memory: a phase completes when all arrivals and all expected bytes are in

__device__ __forceinline__ void barrier_init(Barrier *barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}
// Makes barrier_init visible to TMA; call it once, after the last of them.
__device__ __forceinline__ void barrier_init_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void barrier_arrive(Barrier *barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
// Arrive, and keep the phase open until `bytes` more bytes have arrived.
__device__ __forceinline__ void barrier_expect(Barrier *barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}
// Wait until the phase with this parity is complete. The phase before the first has parity 1 and is complete.
__device__ __forceinline__ void barrier_wait(Barrier *barrier, int parity) {
    asm volatile("{\n.reg .pred p;\nagain_%=:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra again_%=;\n}" ::"r"(
                     shared_address(barrier)),
                 "r"(parity)
                 : "memory");
}

// --- TMA: copies boxes between tensors in global memory and shared memory, in the 128-byte swizzle

__device__ __forceinline__ void tma_prefetch(const tensor_map *map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
// Box at (batch, head, row, column) -> shared; the barrier counts its bytes. Elements outside the tensor are 0.
__device__ __forceinline__ void tma_load(void *shared, const tensor_map *map, Barrier *barrier, int column, int row,
                                         int head, int batch) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(shared_address(shared)),
                 "l"(map), "r"(shared_address(barrier)), "r"(column), "r"(row), "r"(head), "r"(batch)
                 : "memory");
}
// Shared -> box; elements outside the tensor are not written. Joins the current bulk group of the thread.
__device__ __forceinline__ void tma_store(const tensor_map *map, const void *shared, int column, int row, int head,
                                          int batch) {
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
                 "r"(shared_address(shared)), "r"(column), "r"(row), "r"(head), "r"(batch)
                 : "memory");
}
__device__ __forceinline__ void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Wait until all stores of this thread have read their shared memory.
__device__ __forceinline__ void tma_store_wait_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
// Orders this thread's accesses to shared memory before later ones of TMA and the tensor cores (the async proxy).
__device__ __forceinline__ void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Four 8 x 8 matrices of 16-bit elements from registers to shared memory; lane i names the address of one row of 16 bytes.
__device__ __forceinline__ void store_matrices(void *shared, unsigned a, unsigned b, unsigned c, unsigned d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(shared)), "r"(a),
                 "r"(b), "r"(c), "r"(d)
                 : "memory");
}

//$ if score_bias == bias_rows
// --- cp.async: a thread copies 16 bytes to shared memory without registers

__device__ __forceinline__ void copy_piece(void *shared, const void *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(shared)), "l"(from) : "memory");
}
// Arrive when all earlier copies of this thread are complete.
__device__ __forceinline__ void barrier_arrive_copied(Barrier *barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
}

//$ end
// --- wgmma: 64 rows a warpgroup, asynchronous between fence, commit and wait

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Wait until at most the newest PENDING groups are incomplete.
template <int PENDING> __device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}
// Call after a wait: the compiler moves no access to these accumulators before it. Emits no code.
template <int COUNT> __device__ __forceinline__ void wgmma_settle(float (&sum)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        asm volatile("" : "+f"(sum[i])::"memory");
}

// An operand in shared memory as wgmma reads it: in panels of 128-byte rows, swizzled; 8 rows every 1024 bytes.
// `panel_bytes` is from one panel to the next, where the rows are the contracted dimension; else ignored.
__device__ __forceinline__ unsigned long long matrix_descriptor(const void *shared, int panel_bytes) {
    return static_cast<unsigned long long>((shared_address(shared) & 0x3ffff) >> 4) |
           static_cast<unsigned long long>((panel_bytes & 0x3ffff) >> 4) << 16 | 1024ull >> 4 << 32 | 1ull << 62;
}

//$ let q_steps = (head_dim + 15) / 16
//$ let p_steps = block_n / 16
//$ let scores_registers = block_n / 2
//$ let output_registers = head_dim_v / 2
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
//$ if p_in == p_shared
template <int N, int STEPS, bool OF_BFLOAT16>
__device__ void wgmma_ss_nn(float (&sum)[N / 2], unsigned long long a, unsigned long long b);
//$ else
template <int N, int STEPS, bool OF_BFLOAT16>
__device__ void wgmma_rs_nn(float (&sum)[N / 2], const unsigned (&a)[STEPS][4], unsigned long long b);
//$ end

#define ALL_OF_S "{" \
                 //$ for i below block_n / 8 - 1
                 "%${4 * i}, %${4 * i + 1}, %${4 * i + 2}, %${4 * i + 3}, " \
                 //$ end
                 "%${scores_registers - 4}, %${scores_registers - 3}, %${scores_registers - 2}, %${scores_registers - 1}}, "
#define ALL_OF_O "{" \
                 //$ for j below head_dim_v / 8 - 1
                 "%${4 * j}, %${4 * j + 1}, %${4 * j + 2}, %${4 * j + 3}, " \
                 //$ end
                 "%${output_registers - 4}, %${output_registers - 3}, %${output_registers - 2}, %${output_registers - 1}}, "

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
                 //$ if dtype == bf16
                 "wgmma.mma_async.sync.aligned.m64n${block_n}k16.f32.bf16.bf16 " ALL_OF_S
                 //$ else
                 "wgmma.mma_async.sync.aligned.m64n${block_n}k16.f32.f16.f16 " ALL_OF_S
                 //$ end
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

// sum (64, N) += a (64, 16 STEPS) b (16 STEPS, N).
//$ if p_in == p_shared
//$ let output_b = output_registers + 1
template <>
__device__ __forceinline__ void wgmma_ss_nn<HEAD_DIM_V, P_STEPS, BFLOAT16>(float (&sum)[HEAD_DIM_V / 2],
                                                                           unsigned long long a, unsigned long long b) {
    asm volatile("{\n.reg .b64 a, b;\n"
//$ else
//$ let output_b = output_registers + 4 * p_steps
template <>
__device__ __forceinline__ void wgmma_rs_nn<HEAD_DIM_V, P_STEPS, BFLOAT16>(float (&sum)[HEAD_DIM_V / 2],
                                                                           const unsigned (&a)[P_STEPS][4],
                                                                           unsigned long long b) {
    asm volatile("{\n.reg .b64 b;\n"
//$ end
                 //$ for step below p_steps
                 "add.s64 b, %${output_b}, ${step * (16 * 128 / 16)};\n"
                 //$ if p_in == p_shared
                 "add.s64 a, %${output_registers}, ${step / 4 * (64 * 128 / 16) + step % 4 * 2};\n"
                 //$ end
                 //$ if dtype == bf16
                 "wgmma.mma_async.sync.aligned.m64n${head_dim_v}k16.f32.bf16.bf16 " ALL_OF_O
                 //$ else
                 "wgmma.mma_async.sync.aligned.m64n${head_dim_v}k16.f32.f16.f16 " ALL_OF_O
                 //$ end
                 //$ if p_in == p_shared
                 "a, b, 1, 1, 1, 0, 1;\n"
                 //$ else
                 "{%${output_registers + 4 * step}, %${output_registers + 4 * step + 1}, "
                 "%${output_registers + 4 * step + 2}, %${output_registers + 4 * step + 3}}, b, 1, 1, 1, 1;\n"
                 //$ end
                 //$ end
                 "}"
                 :
                 //$ for j below head_dim_v / 8 - 1
                 "+f"(sum[${4 * j}]), "+f"(sum[${4 * j + 1}]), "+f"(sum[${4 * j + 2}]), "+f"(sum[${4 * j + 3}]),
                 //$ end
                 "+f"(sum[${output_registers - 4}]), "+f"(sum[${output_registers - 3}]),
                 "+f"(sum[${output_registers - 2}]), "+f"(sum[${output_registers - 1}])
                 :
                 //$ if p_in == p_shared
                 "l"(a), "l"(b));
                 //$ else
                 //$ for step below p_steps
                 "r"(a[$step][0]), "r"(a[$step][1]), "r"(a[$step][2]), "r"(a[$step][3]),
                 //$ end
                 "l"(b));
                 //$ end
}

#endif
