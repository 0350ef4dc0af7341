//$ needs bias_copied step_m block_n

// The keys of a thread in the form that the score takes, for elements of S^T as in backward/weigh_keys.cuh.
//$ if bias_copied
//$ include "expression/bias_key.cuh"

// Rows that the score adds, for the queries of a step. They are padded, so that they lie in different banks.
using BiasTile = unsigned short[STEP_M][BLOCK_N + 8];

struct ScoreKeys {
    const BiasTile &bias;
    int row, column; // of the thread's element 0

    __device__ __forceinline__ BiasKey operator()(int i, int key) const {
        BiasKey of;
        set_key(of, key, 0);
        of.pair = bias[row + i / 4 * 8 + i % 2][column + i / 2 % 2 * 8];
        return of;
    }
};
//$ else
struct ScoreKeys {
    __device__ __forceinline__ int operator()(int, int key) const { return key; }
};
//$ end
