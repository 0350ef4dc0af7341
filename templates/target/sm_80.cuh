// sm_80: what compute capability 8.0 adds to any. One instruction each; the host device has its own bodies under these
// names (runtime/host/device/).
#ifndef ATTILE_HOST

// Starts copying 16 bytes from global to shared memory, both aligned to 16; zeros are written instead when not wanted.
__device__ __forceinline__ void copy_async_16(void *to, const void *from, bool wanted) {
    unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from), "r"(wanted ? 16 : 0)
                 : "memory");
}

// The same for 4 bytes.
__device__ __forceinline__ void copy_async_4(void *to, const void *from, bool wanted) {
    unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared), "l"(from), "r"(wanted ? 4 : 0)
                 : "memory");
}

// Waits until all copies that this thread started have been written; others see them after a barrier.
__device__ __forceinline__ void copy_async_wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

#endif
