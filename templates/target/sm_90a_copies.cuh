//$ include "target/sm_90a_async.cuh"
#ifndef ATTILE_HOST

// --- cp.async: a thread copies 16 bytes to shared memory without going through registers

__device__ __forceinline__ void copy_piece(void *shared, const void *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(shared)), "l"(from) : "memory");
}
// Arrives when all earlier copies of this thread are complete.
__device__ __forceinline__ void barrier_arrive_copied(Barrier *barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Waits until all copies of this thread are complete.
__device__ __forceinline__ void copy_pieces_wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

#endif
