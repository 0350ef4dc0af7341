/* l2_flush: what was in a GPU's L2 cache before is not there after. */
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

/* Reads a buffer four times as large as L2 (128 MiB where `l2_bytes` is not known), which the first call makes. It is read, not written:
   lines that were written go back to memory while the next kernel runs, and slow it down. GPUs before 7.5 write it. A CUresult. */
int l2_flush(const struct cuda_api *api, struct l2_flush *flush, int l2_bytes, int multiprocessors, void *stream);

void l2_flush_free(const struct cuda_api *api, struct l2_flush *flush);

#endif
