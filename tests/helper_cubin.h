/* helper_cubin: as much of a CUDA binary as the runtime reads, for machines without a compiler that makes
   a real one. */
#ifndef HELPER_CUBIN_H
#define HELPER_CUBIN_H

#include <stddef.h>

/* Returns a binary for sm_90a that holds kernels of these names, each with 40 registers. The caller frees it. */
void *cubin_make(const char *const *entries, int count, size_t *size);

#endif
