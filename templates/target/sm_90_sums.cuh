// sm_90: additions to global memory, for kernels of all targets from compute capability 9.0 on. The host device has its own bodies
// under these names (runtime/host/device/).
#ifndef ATTILE_HOST

// Adds four floats, each atomically by itself; `to` is aligned to 16 bytes.
__device__ __forceinline__ void add_to_memory(float *to, float a, float b, float c, float d) {
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(a), "f"(b), "f"(c), "f"(d)
                 : "memory");
}
// Adds to *to and returns the value before. Acquire and release, for all blocks: what this thread wrote or knew before is visible to those
// that add afterwards, and what those that added before had written is visible to this thread.
__device__ __forceinline__ int atomic_add_acq_rel(int *to, int value) {
    int before;
    asm volatile("atom.acq_rel.gpu.global.add.s32 %0, [%1], %2;" : "=r"(before) : "l"(to), "r"(value) : "memory");
    return before;
}
// Adds to *to. Release alone: the thread does not wait for the value before.
__device__ __forceinline__ void add_release(int *to, int value) {
    asm volatile("red.release.gpu.global.add.s32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}
// Waits until *counter is `count`. Acquire: what was visible to those that counted so far is visible to this thread.
__device__ __forceinline__ void await_count(const int *counter, int count) {
    int found;
    do
        asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(found) : "l"(counter) : "memory");
    while (found != count);
}

#endif
