//$ include "target/sm_90a_cluster.cuh"
#ifndef ATTILE_HOST

// Copies shared memory of this block to that of the block with this rank, where the barrier counts the bytes. `to` and `barrier` are
// addresses in this block; both ends of the copy are aligned to 16 bytes.
__device__ __forceinline__ void copy_to_block(void *to, const void *from, int bytes, Barrier *barrier, int rank) {
    asm volatile("{\n.reg .b32 there, full;\nmapa.shared::cluster.u32 there, %0, %4;\nmapa.shared::cluster.u32 full, %3, %4;\n"
                 "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [there], [%1], %2, [full];\n}" ::"r"(
                     shared_address(to)),
                 "r"(shared_address(from)), "r"(bytes), "r"(shared_address(barrier)), "r"(rank)
                 : "memory");
}

#endif
