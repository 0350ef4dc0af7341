/* cubin: reads the resource usage of a kernel from a CUDA binary (an ELF file with NVIDIA's own sections). The bytes
   may come from anywhere: every offset is checked before it is followed. */
#ifndef ATTILE_CUBIN_H
#define ATTILE_CUBIN_H

#include <stdbool.h>
#include <stddef.h>

struct cubin_usage {
    int registers;     /* per thread */
    int frame_bytes;   /* local memory per thread */
    int static_shared; /* bytes per block; on sm_90 and later includes 1,024 that the system reserves */
    int instructions;  /* of its code, including functions it calls unless the compiler left them outside */
    int spills;        /* load and store instructions that the compiler added because registers ran out */
    /* Between its first and its last wgmma; the code of warps that only load is elsewhere. */
    int instructions_among_products, spills_among_products;
};

/* Returns the SM number that a cubin was made for (90 for sm_90 and sm_90a), or -1 if the bytes are not a cubin. */
int cubin_arch(const void *bytes, size_t size);

/* Fills the usage of one kernel. False if the bytes are not a cubin, are damaged, or have no such kernel. */
bool cubin_read(const void *bytes, size_t size, const char *kernel, struct cubin_usage *usage);

#endif
