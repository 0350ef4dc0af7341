//$ include "target/sm_80.cuh"

// sm_90a: what warpgroups, barriers and TMA need; each is one instruction. The host device has its own bodies under these names.

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

// --- named barriers 1 .. 15: some threads wait and some only arrive

__device__ __forceinline__ void named_barrier_sync(int id, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ void named_barrier_arrive(int id, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// --- mbarriers in shared memory: a phase completes when all arrivals and all expected bytes have come in

__device__ __forceinline__ void barrier_init(Barrier *barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}
// Makes barrier_init visible to TMA; call it once, after the last barrier_init.
__device__ __forceinline__ void barrier_init_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void barrier_arrive(Barrier *barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
// Arrives, and keeps the phase open until `bytes` more bytes have arrived.
__device__ __forceinline__ void barrier_expect(Barrier *barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}
// Waits until the phase with this parity is complete. The phase before the first has parity 1 and is complete.
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
// Loads the box at (batch, head, row, column) into shared memory; the barrier counts its bytes. Elements outside the tensor are 0.
__device__ __forceinline__ void tma_load(void *shared, const tensor_map *map, Barrier *barrier, int column, int row,
                                         int head, int batch) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(shared_address(shared)),
                 "l"(map), "r"(shared_address(barrier)), "r"(column), "r"(row), "r"(head), "r"(batch)
                 : "memory");
}
// Stores shared memory to the box; elements outside the tensor are not written. Joins the current bulk group of the thread.
__device__ __forceinline__ void tma_store(const tensor_map *map, const void *shared, int column, int row, int head,
                                          int batch) {
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
                 "r"(shared_address(shared)), "r"(column), "r"(row), "r"(head), "r"(batch)
                 : "memory");
}
// Loads floats from memory into shared memory, both aligned to 16 bytes; the barrier counts their bytes.
__device__ __forceinline__ void tma_load_floats(float *shared, const float *from, int bytes, Barrier *barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(shared)),
                 "l"(from), "r"(bytes), "r"(shared_address(barrier))
                 : "memory");
}
// Adds floats in shared memory to those at `to`, each atomically; both are aligned to 16 bytes. Joins the current bulk group.
__device__ __forceinline__ void tma_add(float *to, const void *shared, int bytes) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to),
                 "r"(shared_address(shared)), "r"(bytes)
                 : "memory");
}
// The same, but stores them.
__device__ __forceinline__ void tma_store_floats(float *to, const void *shared, int bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(shared_address(shared)), "r"(bytes)
                 : "memory");
}
__device__ __forceinline__ void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Waits until all stores of this thread are complete.
__device__ __forceinline__ void tma_store_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
// Waits until all stores of this thread have read their shared memory.
__device__ __forceinline__ void tma_store_wait_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
// Orders this thread's accesses to shared memory before later accesses of TMA and the tensor cores (the async proxy).
__device__ __forceinline__ void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Stores four 8 x 8 matrices of 16-bit elements from registers to shared memory; lane i passes the address of one row of 16 bytes.
__device__ __forceinline__ void store_matrices(void *shared, unsigned a, unsigned b, unsigned c, unsigned d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(shared)), "r"(a),
                 "r"(b), "r"(c), "r"(d)
                 : "memory");
}

// --- wgmma: 64 rows a warpgroup, asynchronous between fence, commit and wait

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Waits until at most the newest PENDING groups are incomplete.
template <int PENDING> __device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}
// Call after a wait: the compiler moves no access to these accumulators before it. Emits no code.
template <int COUNT> __device__ __forceinline__ void wgmma_settle(float (&sum)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        asm volatile("" : "+f"(sum[i])::"memory");
}

// Describes an operand in shared memory for wgmma: panels of 128-byte rows, swizzled; 8 rows every 1024 bytes.
// `panel_bytes` is the distance between panels if the rows are the contracted dimension; otherwise ignored.
__device__ __forceinline__ unsigned long long matrix_descriptor(const void *shared, int panel_bytes) {
    return static_cast<unsigned long long>((shared_address(shared) & 0x3ffff) >> 4) |
           static_cast<unsigned long long>((panel_bytes & 0x3ffff) >> 4) << 16 | 1024ull >> 4 << 32 | 1ull << 62;
}

#endif
