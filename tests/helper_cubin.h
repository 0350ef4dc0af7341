/* helper_cubin: as much of a CUDA binary as the runtime reads, for machines that have no compiler to make a real one. */
#ifndef HELPER_CUBIN_H
#define HELPER_CUBIN_H

#include <stddef.h>

/* A binary for sm_90a that holds kernels of these names, each with 40 registers. To be freed. */
void *cubin_make(const char *const *entries, int count, size_t *size);

#endif
