/* abi: the interface between a compiled kernel and the host device; valid in C and C++. A CUDA thread is a fiber. A
   block's stacks, ATTILE_STACK bytes each, are contiguous in a region of ATTILE_REGION bytes. The region is aligned to
   its size and starts with the block's struct attile_block. So the stack pointer alone identifies the block, the
   thread, and the thread's own memory. */
#ifndef ATTILE_HOST_ABI_H
#define ATTILE_HOST_ABI_H

enum {
    ATTILE_HOST_ABI = 13, /* raise it when anything here changes */
    ATTILE_THREADS = 1024,
    ATTILE_STACK = 256 * 1024, /* bytes, a power of two */
    ATTILE_REGION = ATTILE_THREADS * ATTILE_STACK,
    ATTILE_RANGES = 8,
    ATTILE_WARP = 32,
    ATTILE_WARPGROUP = 128,
    ATTILE_CLUSTER = 8 /* blocks */
};

/* Operations of a whole warp. */
enum attile_collective {
    ATTILE_SYNC,     /* wait, and make each lane's writes visible to the others */
    ATTILE_PICK,     /* the value of lane `source` */
    ATTILE_BALLOT,   /* a bit for each lane whose value is not 0 */
    ATTILE_ROWS,     /* the value is a struct attile_rows */
    ATTILE_MULTIPLY, /* the value is a struct attile_warp_product */
    ATTILE_COLLECTIVES
};

/* ldmatrix: lane 8 j + i passes the address of row i of matrix j, 16 bytes of shared memory, and receives the addresses
   of the rows with its own elements. */
struct attile_rows {
    const void *named;
    const void *row[4][2]; /* for each matrix: the row of this lane's pair, or its two rows if transposed */
    int transposed;
};

enum attile_type { ATTILE_FP16, ATTILE_BF16, ATTILE_TF32 };

/* mma: sum (16, 8) += a (16, 16) b (16, 8), or a (16, 8) b (8, 8) for TF32: the fragments of one lane (layout: mma.c). */
struct attile_warp_product {
    float *sum;        /* 4 */
    const unsigned *a; /* 4 pairs, or elements of TF32 */
    const unsigned *b; /* 2 */
    int type;
};

/* Operations on a transaction barrier (mbarrier). */
enum attile_transaction {
    ATTILE_INIT,
    ATTILE_INIT_FENCE,
    ATTILE_ARRIVE,
    ATTILE_ARRIVE_PEER, /* at the same offset in the block of the cluster whose rank is the value */
    ATTILE_EXPECT,
    ATTILE_WAIT
};

/* Operations on groups of asynchronous copies and products. */
enum attile_group { ATTILE_FENCE, ATTILE_COMMIT, ATTILE_FINISH };

/* A copy of a box between a tensor and shared memory. */
struct attile_box {
    const void *map;
    void *shared;
    void *barrier; /* counts the bytes of a load; null = a store */
    int place[4];  /* in the order of the map, columns first */
    unsigned mask; /* a bit for each rank of the cluster that a load writes to; 0 = this block */
};

/* Floats that are loaded to shared memory, or stored or added to global memory. */
struct attile_floats {
    float *global;
    void *shared;
    int bytes;
    void *barrier; /* counts the bytes of a load; null = none */
    int adds;      /* to those in global memory */
};

/* Shared memory that is copied to that of another block of the cluster. */
struct attile_sent {
    void *to, *barrier; /* in that block; the offsets of these in this one */
    const void *from;
    int bytes, rank;
};

/* wgmma: sum (64, columns) = a (64, 16) b, plus sum if `keep`: the operands of one thread of the warpgroup. */
struct attile_product {
    float *sum;        /* this thread's columns / 2 */
    const unsigned *a; /* this thread's four registers of a; null = a is in shared memory */
    unsigned long long a_descriptor, b_descriptor;
    int columns, keep, bfloat16;
    int b_transposed; /* b is stored as (columns, 16), otherwise as (16, columns) */
    int a_transposed; /* a in shared memory is stored as (16, 64), otherwise as (64, 16) */
};

enum attile_count {
    ATTILE_GLOBAL_READ,
    ATTILE_GLOBAL_WRITTEN,
    ATTILE_SHARED_READ,
    ATTILE_SHARED_WRITTEN,
    ATTILE_SHARED_CONFLICTS, /* a count, not bytes: passes of ldmatrix beyond the minimum */
    ATTILE_COUNTS
};

struct attile_block;

/* A copy that a thread has started (cp.async). */
struct attile_copy {
    void *to;
    const void *from;
    unsigned size, bytes; /* `bytes` are copied, the rest of `size` is zero-filled */
    unsigned group;       /* the thread's commit group */
};

/* Called by thread `index` of a block. `line` is a line of the kernel's source. */
struct attile_host {
    void (*barrier)(struct attile_block *block, unsigned index, int line);
    unsigned long long (*collective)(struct attile_block *block, unsigned index, int operation, unsigned mask,
                                     unsigned long long value, int source, int line);
    /* An access outside the thread's stack, the block's shared memory and range[]. `pc` is a code address in the
       statement; alignment 0 = any. */
    void (*access)(struct attile_block *block, unsigned index, const void *address, unsigned long long size, int write,
                   unsigned alignment, const void *pc);
    /* The kernel did something that the hardware does not support. Never returns. */
    void (*refuse)(struct attile_block *block, unsigned index, int line, const char *sentence);
    /* cp.async. copy_start records a copy; false = it completes at once. copy_commit ends a group. copy_next returns a
       copy that completes in a wait for all groups but the newest `pending`, or for all copies if that is negative;
       false = none is left. */
    int (*copy_start)(struct attile_block *block, unsigned index, struct attile_copy copy);
    void (*copy_commit)(struct attile_block *block, unsigned index);
    int (*copy_next)(struct attile_block *block, unsigned index, int pending, struct attile_copy *copy);

    /* Hopper: named barriers (sync or arrive), transaction barriers, setmaxnreg, TMA and wgmma. After ATTILE_FINISH `pending` groups
       may be unfinished. */
    void (*named)(struct attile_block *block, unsigned index, int id, int threads, int wait, int line);
    void (*transaction)(struct attile_block *block, unsigned index, int operation, void *barrier, int value, int line);
    void (*registers)(struct attile_block *block, unsigned index, int count, int acquire, int line);
    void (*box)(struct attile_block *block, unsigned index, const struct attile_box *box, int line);
    void (*floats)(struct attile_block *block, unsigned index, const struct attile_floats *floats, int line);
    void (*send)(struct attile_block *block, unsigned index, const struct attile_sent *sent, int line);
    void (*boxes)(struct attile_block *block, unsigned index, int operation, int line);
    void (*product)(struct attile_block *block, unsigned index, const struct attile_product *product, int line);
    void (*products)(struct attile_block *block, unsigned index, int operation, int pending, int line);

    /* The barrier of the cluster's threads: arrive, or wait until all have arrived. */
    void (*cluster)(struct attile_block *block, unsigned index, int wait, int line);

    /* The previous launch has ended, or need only have begun: from now on this thread may access global memory. */
    void (*dependency)(struct attile_block *block, unsigned index, int ended);

    /* Waits until a counter in global memory has a value. */
    void (*await)(struct attile_block *block, unsigned index, const int *counter, int expected, int line);

    /* What the thread knows is ordered before what follows an acquire of the same object, by any block. */
    void (*order)(void *object, int acquire);

    void *(*copy)(void *to, const void *from, unsigned long long size);
    void *(*fill)(void *to, int byte, unsigned long long size);
};

struct attile_block {
    const struct attile_host *host;
    void *device;           /* the device's own view of this block */
    unsigned index, grid;   /* of this block; blocks of the launch */
    unsigned rank, cluster; /* of this block in its cluster; blocks of the cluster, 1 without clusters */
    unsigned threads;
    unsigned char *shared; /* dynamic shared memory, 1024-byte aligned */
    unsigned long long shared_size;
    unsigned long long count[ATTILE_COUNTS]; /* in bytes, except conflicts */
    struct {
        unsigned long long low, size;
    } range[ATTILE_RANGES]; /* recently accessed buffers */
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
