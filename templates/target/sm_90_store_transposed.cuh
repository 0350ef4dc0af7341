// sm_90: transposed stores of matrices, for kernels of all targets from compute capability 9.0 on. The host device has its own body under
// this name (runtime/host/device/).
#ifndef ATTILE_HOST

// Stores the transposes of four 8 x 8 matrices of 16-bit elements from registers to shared memory; lane i passes the address of one row of
// 16 bytes of a transpose.
__device__ __forceinline__ void store_matrices_transposed(void *shared, unsigned a, unsigned b, unsigned c, unsigned d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(shared)), "r"(a),
                 "r"(b), "r"(c), "r"(d)
                 : "memory");
}

#endif
