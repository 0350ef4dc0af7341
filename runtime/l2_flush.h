/* l2_flush: evicts everything from a GPU's L2 cache. */
#ifndef ATTILE_L2_FLUSH_H
#define ATTILE_L2_FLUSH_H

#include "cuda_api.h"

/* A buffer of device memory, and the kernel that reads it. All zero: not used yet. */
struct l2_flush {
    uint64_t buffer;
    size_t bytes;
    void *module, *function;
    bool writes; /* the GPU is too old for the kernel */
};

/* Reads a buffer four times as large as L2 (128 MiB if `l2_bytes` is not known), which the first call allocates. It is
   read, not written: written lines go back to memory while the next kernel runs, and slow it down. GPUs before 7.5
   write it. Returns a CUresult. */
int l2_flush(const struct cuda_api *api, struct l2_flush *flush, int l2_bytes, int multiprocessors, void *stream);

void l2_flush_free(const struct cuda_api *api, struct l2_flush *flush);

#endif
