//$ needs block_n consumers bias_stages
//$ include "expression/bias_key.cuh"

// The bias of a unit's rows and the keys of a K/V tile, in shared memory. Rows are padded so that the eight rows of a matrix lie in
// different banks.
using BiasRows = unsigned short[64][BLOCK_N + 8];

struct BiasStages {
    BiasRows rows[BIAS_STAGES][CONSUMERS];
    Barrier full[BIAS_STAGES][CONSUMERS], empty[BIAS_STAGES][CONSUMERS];
};

__device__ __forceinline__ void init_barriers(BiasStages &bias) {
    for (int stage = 0; stage < BIAS_STAGES; stage++)
        for (int consumer = 0; consumer < CONSUMERS; consumer++) {
            barrier_init(&bias.full[stage][consumer], 32); // lanes that copy
            barrier_init(&bias.empty[stage][consumer], 4); // warps that read
        }
}
