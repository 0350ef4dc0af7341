/* work: what the models of all kernels share. The file of a kernel computes the cost of a block's round; model.c turns
   it into the time of a launch. */
#ifndef ATTILE_MODEL_WORK_H
#define ATTILE_MODEL_WORK_H

#include "model.h"

struct work {
    const struct model_gpu *gpu;
    const struct knobs *knobs;
    const struct variant *variant;
    const struct model_usage *usage; /* or null */
    const struct shape *shape;
    struct model_terms *terms;

    /* What a kernel's function computes, in addition to terms: tensor .. start, resident, blocks. */
    int block_m, block_n; /* queries and keys of a tile; the queries of a shape are cut into blocks of block_m */
    double busy;     /* clocks that a round of a block takes from the SM: k blocks side by side take k times as many */
    double parts;    /* number of parts that the keys of a Q tile are split into */
    double launches; /* kernels started one after the other */
    double extra_seconds; /* that a launch takes in addition */
    double extra_bytes;   /* that device memory moves besides Q, K, V and O */
    double sms;           /* SMs, or groups of SMs that work on a tile together */
    bool stays;           /* persistent: one block per SM processes several tiles, distributed evenly */
    double block_start;   /* clocks that a persistent block needs once; terms.start is then for each of its tiles */
    bool heaviest_first;  /* blocks with the most rounds start first */
    bool all_heads;       /* blocks of all heads run side by side: their keys and values share the L2 */
};

/* One function per kernel; it returns false if it cannot model these knobs. */
_Static_assert(DERIVED_COUNT <= 32, "work_has takes a bit for every derived value");

typedef bool work_function(struct work *work);
work_function work_flash_async, work_flash_mma, work_decode, work_mla, work_flash_tiled, work_row_by_row,
    work_materialized, work_softmax, work_merge, work_append, work_backward;

/* Combines `clocks` of units that work at the same time: the slowest dominates, the more so the higher the exponent. */
double work_overlap(const double *clocks, int count, double exponent);

/* True if the template has these lets (bit DERIVED_... set). A template from elsewhere may do the same by other
   means. */
static inline bool work_has(const struct work *work, unsigned lets) {
    for (int i = 0; i < DERIVED_COUNT; i++)
        if (lets >> i & 1 && work->variant->derived[i] == DERIVED_NONE)
            return false;
    return true;
}

/* Blocks that fit on an SM at a time, limited by shared memory, threads and registers. `by_registers` blocks fit the
   registers if usage does not say. */
double work_resident(const struct work *work, double by_registers);

/* Blocks of the last launch, from the template's own formula. */
double work_grid(const struct work *work);

static inline double work_cover(double size, double part) {
    return part > 0 ? (double)(int64_t)((size + part - 1) / part) : 0;
}

#endif
