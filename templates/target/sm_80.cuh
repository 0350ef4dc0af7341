//$ include "target/any.cuh"

// sm_80: what compute capability 8.0 adds to any. Each is one instruction; the host device has its own bodies under these
// names (runtime/host/device/).
#ifndef ATTILE_HOST

// --- copies by threads, without going through registers (cp.async)

// A shared-memory address, as copies and loads take it. Constants added to it become part of the instruction; a pointer would
// be taken apart, and each sum would be an instruction of its own.
using SharedAddress = unsigned;
__device__ __forceinline__ SharedAddress address_in_shared(const void *pointer) {
    return static_cast<unsigned>(opaque(static_cast<int>(shared_address(pointer))));
}

__device__ __forceinline__ void store_word(SharedAddress to, unsigned word) {
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(word) : "memory");
}

__device__ __forceinline__ float load_float(SharedAddress from) {
    float x;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(from) : "memory");
    return x;
}

// Starts copying `bytes` bytes to shared memory, followed by zeros up to SIZE: 16, 8 or 4. Both sides are aligned to SIZE.
template <int SIZE> __device__ __forceinline__ void copy_async(void *to, const void *from, int bytes) {
    if constexpr (SIZE == 16) // bypasses L1
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes),
                     "n"(SIZE)
                     : "memory");
}

// The same to a SharedAddress: reads `bytes` of SIZE bytes; the others become 0.
template <int SIZE> __device__ __forceinline__ void copy_async_to(SharedAddress to, const void *from, int bytes) {
    if constexpr (SIZE == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(to), "l"(from), "r"(bytes), "n"(SIZE) : "memory");
}

// Ends a group: the copies that this thread started since the previous group.
__device__ __forceinline__ void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until all groups of this thread but the PENDING newest have been written. Other threads see the data after a barrier.
template <int PENDING> __device__ __forceinline__ void copy_async_wait_groups() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// Waits until all copies of this thread have been written. Other threads see the data after a barrier.
__device__ __forceinline__ void copy_async_wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// --- warp-level products of 16 rows (mma), and their operands

// Loads four 8 x 8 matrices of 16-bit elements from shared memory. Lane i passes the address of one row of 16 bytes; four
// lanes receive a row of every matrix.
__device__ __forceinline__ void load_matrices(unsigned (&pair)[4], const void *shared) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(pair[0]), "=r"(pair[1]), "=r"(pair[2]), "=r"(pair[3])
                 : "r"(shared_address(shared))
                 : "memory");
}

// The same from a SharedAddress: lane i passes the address of a row, and four lanes receive the pairs of a row.
__device__ __forceinline__ void load_matrices_at(unsigned (&pair)[4], SharedAddress at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(pair[0]), "=r"(pair[1]), "=r"(pair[2]), "=r"(pair[3])
                 : "r"(at)
                 : "memory");
}

// Loads the same matrices transposed: four lanes receive a column.
__device__ __forceinline__ void load_matrices_transposed(unsigned (&pair)[4], SharedAddress at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(pair[0]), "=r"(pair[1]), "=r"(pair[2]), "=r"(pair[3])
                 : "r"(at)
                 : "memory");
}

// sum (16, 8) += a (16, 16) b (16, 8)
template <bool OF_BFLOAT16>
__device__ __forceinline__ void mma(float &s0, float &s1, float &s2, float &s3, const unsigned (&a)[4], unsigned b0,
                                    unsigned b1) {
    if constexpr (OF_BFLOAT16)
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(s0), "+f"(s1), "+f"(s2), "+f"(s3)
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(s0), "+f"(s1), "+f"(s2), "+f"(s3)
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Rounds a float to the 11 significant bits of an operand of mma_tf32, ties away from 0.
__device__ __forceinline__ unsigned to_tf32(float x) {
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
}

// sum (16, 8) += a (16, 8) b (8, 8)
__device__ __forceinline__ void mma_tf32(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Transposes an 8 x 8 matrix of 16-bit elements; lane 4 g + t holds the t-th pair of row g.
__device__ __forceinline__ unsigned transpose_matrix(unsigned pair) {
    unsigned transposed;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(transposed) : "r"(pair));
    return transposed;
}

// Packs two floats into a pair of 16-bit elements, the first in the lower half.
template <bool TO_BFLOAT16> __device__ __forceinline__ unsigned pack(float first, float second) {
    unsigned pair;
    if constexpr (TO_BFLOAT16)
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    else
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
}

#endif
