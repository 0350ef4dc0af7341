// sm_90: additions to global memory, for kernels of all targets from compute capability 9.0 on. The host device has its own bodies
// under these names (runtime/host/device/).
#ifndef ATTILE_HOST

// Adds four floats, each atomically by itself; `to` is aligned to 16 bytes.
__device__ __forceinline__ void add_to_memory(float *to, float a, float b, float c, float d) {
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(a), "f"(b), "f"(c), "f"(d)
                 : "memory");
}

#endif
