/* cubin: reads what the compiler used out of a CUDA binary (an ELF file with NVIDIA's own sections). The bytes may come
   from anywhere: every offset is checked before it is followed. */
#ifndef ATTILE_CUBIN_H
#define ATTILE_CUBIN_H

#include <stdbool.h>
#include <stddef.h>

struct cubin_usage {
    int registers;     /* of a thread */
    int frame_bytes;   /* local memory of a thread */
    int static_shared; /* bytes of a block; on sm_90 and later includes 1,024 that the system reserves */
    int instructions;  /* of its code; functions it calls are in it unless the compiler left them outside */
    int spills;        /* load and store instructions that the compiler added because registers ran out */
    /* Between its first and its last wgmma: what warps that only load do is elsewhere. */
    int instructions_among_products, spills_among_products;
};

/* The SM number a cubin was made for (90 for sm_90 and sm_90a), or -1 when the bytes are no cubin. */
int cubin_arch(const void *bytes, size_t size);

/* Fill the usage of one kernel. False when the bytes are no cubin, are damaged, or hold no such kernel. */
bool cubin_read(const void *bytes, size_t size, const char *kernel, struct cubin_usage *usage);

#endif
