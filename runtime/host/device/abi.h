/* abi: what a compiled kernel and the host device know of each other; valid in C and C++.
   A CUDA thread is a fiber. The stacks of a block are ATTILE_STACK bytes each, one after the other in a region of
   ATTILE_REGION bytes that is aligned to its size and starts with the block's struct attile_block: so the stack pointer
   alone says which block and which thread is running, and what is its own memory. */
#ifndef ATTILE_HOST_ABI_H
#define ATTILE_HOST_ABI_H

enum {
    ATTILE_HOST_ABI = 7, /* raised when anything here changes */
    ATTILE_THREADS = 1024,
    ATTILE_STACK = 256 * 1024, /* bytes, a power of two */
    ATTILE_REGION = ATTILE_THREADS * ATTILE_STACK,
    ATTILE_RANGES = 8,
    ATTILE_WARP = 32,
    ATTILE_WARPGROUP = 128,
    ATTILE_CLUSTER = 8 /* blocks */
};

/* What lanes of a warp do together. */
enum attile_collective {
    ATTILE_SYNC,     /* wait, and see each other's writes */
    ATTILE_PICK,     /* the value of lane `source` */
    ATTILE_BALLOT,   /* a bit for each lane whose value is not 0 */
    ATTILE_ROWS,     /* the value is a struct attile_rows */
    ATTILE_MULTIPLY, /* the value is a struct attile_warp_product */
    ATTILE_COLLECTIVES
};

/* ldmatrix: lane 8 j + i names row i of matrix j, 16 bytes of shared memory, and is told where its own elements are. */
struct attile_rows {
    const void *named;
    const void *row[4][2]; /* of each matrix the row, or the two rows if it is transposed, of this lane's pair */
    int transposed;
};

enum attile_type { ATTILE_FP16, ATTILE_BF16 };

/* mma: sum (16, 8) += a (16, 16) b (16, 8), the part of one lane (warp_unit.c has the layout). */
struct attile_warp_product {
    float *sum;        /* 4 */
    const unsigned *a; /* 4 pairs */
    const unsigned *b; /* 2 pairs */
    int type;
};

/* What a thread does with a transaction barrier. */
enum attile_transaction {
    ATTILE_INIT,
    ATTILE_INIT_FENCE,
    ATTILE_ARRIVE,
    ATTILE_ARRIVE_PEER, /* at the same place in another block of the cluster; the value is its rank */
    ATTILE_EXPECT,
    ATTILE_WAIT
};

/* ... with its asynchronous copies, and its warpgroup's asynchronous products. */
enum attile_group { ATTILE_FENCE, ATTILE_COMMIT, ATTILE_FINISH };

/* A copy of a box between a tensor and shared memory. */
struct attile_box {
    const void *map;
    void *shared;
    void *barrier; /* that counts the bytes; null = a store */
    int place[4];  /* in the order of the map, columns first */
    unsigned mask; /* ranks of the cluster that a load goes to, a bit each; 0 = this block */
};

/* sum (64, columns) = a (64, 16) b, plus sum if `keep`: what one thread of the warpgroup says of it. */
struct attile_product {
    float *sum;        /* this thread's columns / 2 */
    const unsigned *a; /* this thread's four registers of a; null = a is in shared memory */
    unsigned long long a_descriptor, b_descriptor;
    int columns, keep, bfloat16;
    int b_transposed; /* b is given as (columns, 16), else as (16, columns) */
};

enum attile_count {
    ATTILE_GLOBAL_READ,
    ATTILE_GLOBAL_WRITTEN,
    ATTILE_SHARED_READ,
    ATTILE_SHARED_WRITTEN,
    ATTILE_SHARED_CONFLICTS, /* not bytes: passes of ldmatrix beyond the least */
    ATTILE_COUNTS
};

struct attile_block;

/* A copy that a thread has started (cp.async). */
struct attile_copy {
    void *to;
    const void *from;
    unsigned size, bytes; /* so many bytes come from there, the others are 0 */
    unsigned group;       /* of this thread's */
};

/* What the device does for thread `index` of a block. `line` is the line in the kernel's source. */
struct attile_host {
    void (*barrier)(struct attile_block *block, unsigned index, int line);
    unsigned long long (*collective)(struct attile_block *block, unsigned index, int operation, unsigned mask,
                                     unsigned long long value, int source, int line);
    /* An access to neither the thread's stack nor the block's shared memory nor a range known to the block. `pc` is a
       code address in the statement; 0 bytes of alignment = any. */
    void (*access)(struct attile_block *block, unsigned index, const void *address, unsigned long long size, int write,
                   unsigned alignment, const void *pc);
    /* The kernel did what the hardware would not do. Never returns. */
    void (*refuse)(struct attile_block *block, unsigned index, int line, const char *sentence);
    /* Remember a copy; false when it is to land at once. End a group. Give back one that lands in a wait for all groups but
       the `pending` newest, or for all copies if that is negative; false when there is none. */
    int (*copy_start)(struct attile_block *block, unsigned index, struct attile_copy copy);
    void (*copy_commit)(struct attile_block *block, unsigned index);
    int (*copy_next)(struct attile_block *block, unsigned index, int pending, struct attile_copy *copy);

    /* Hopper: named barriers (wait, or only arrive), transaction barriers, registers that move between warpgroups, the
       TMA, and the tensor cores. `pending` groups may be unfinished after ATTILE_FINISH. */
    void (*named)(struct attile_block *block, unsigned index, int id, int threads, int wait, int line);
    void (*transaction)(struct attile_block *block, unsigned index, int operation, void *barrier, int value, int line);
    void (*registers)(struct attile_block *block, unsigned index, int count, int acquire, int line);
    void (*box)(struct attile_block *block, unsigned index, const struct attile_box *box, int line);
    void (*boxes)(struct attile_block *block, unsigned index, int operation, int line);
    void (*product)(struct attile_block *block, unsigned index, const struct attile_product *product, int line);
    void (*products)(struct attile_block *block, unsigned index, int operation, int pending, int line);

    /* The barrier of the cluster's threads: arrive, or wait until all have. */
    void (*cluster)(struct attile_block *block, unsigned index, int wait, int line);

    void *(*copy)(void *to, const void *from, unsigned long long size);
    void *(*fill)(void *to, int byte, unsigned long long size);
};

struct attile_block {
    const struct attile_host *host;
    void *device;           /* the device's own view of this block */
    unsigned index, grid;   /* this block, of so many */
    unsigned rank, cluster; /* this block within its cluster, of so many; 0 of 1 where there are none */
    unsigned threads;
    unsigned char *shared; /* dynamic shared memory, 1024-byte aligned */
    unsigned long long shared_size;
    unsigned long long count[ATTILE_COUNTS]; /* bytes, but for conflicts */
    struct {
        unsigned long long low, size;
    } range[ATTILE_RANGES]; /* buffers touched lately */
};

struct attile_entry {
    const char *name;
    void (*run)(const void *params);
    unsigned long long params_size;
};

/* A binary exports one of these as `attile_module_table`. */
struct attile_module {
    int abi, mode; /* enum att_host_mode */
    int entries;
    const struct attile_entry *entry;
};

#endif
