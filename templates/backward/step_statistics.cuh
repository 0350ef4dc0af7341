//$ needs rows_in_order step_m statistics_ahead products_within_step
//$ include "backward/load_statistics.cuh" if not products_within_step

//$ if rows_in_order
// A thread's numbers for the queries of a step: LSE in base 2, or D. Those of neighbouring queries are loaded together.
struct Statistics {
    float2 pairs[STEP_M / 8];

    __device__ __forceinline__ void load(const float (&of_step)[STEP_M]) {
#pragma unroll
        for (int i = 0; i < STEP_M / 8; i++)
            pairs[i] = *reinterpret_cast<const float2 *>(&of_step[8 * i + static_cast<int>(threadIdx.x) % 4 * 2]);
    }
    // Sets `number` to those of queries 16 j to 16 j + 15, [2 h + e].
    __device__ __forceinline__ void get(float (&number)[4], int j) const {
        number[0] = pairs[2 * j].x;
        number[1] = pairs[2 * j].y;
        number[2] = pairs[2 * j + 1].x;
        number[3] = pairs[2 * j + 1].y;
    }
};
//$ elif products_within_step
// The numbers for the queries of a step: LSE in base 2, or D. Each lane holds those of every eighth of its queries, and the eight lanes
// that have the same queries pass them to each other: if every lane loaded its own, a third of all accesses to shared memory would be these.
struct Statistics {
    float held[STEP_M / 32];

    __device__ __forceinline__ void load(const float (&of_step)[STEP_M]) {
#pragma unroll
        for (int i = 0; i < STEP_M / 32; i++)
            held[i] = of_step[32 * i + static_cast<int>(threadIdx.x) % 32];
    }
    // Sets `number` to those of queries 16 j to 16 j + 15, [2 h + e].
    __device__ __forceinline__ void get(float (&number)[4], int j) const {
#pragma unroll
        for (int i = 0; i < 4; i++)
            number[i] = __shfl_sync(0xffffffffu, held[(4 * j + i) / 8], (4 * j + i) % 8 * 4 + static_cast<int>(threadIdx.x) % 4);
    }
    // Returns NaN in one of a warp's lanes at least if a number is NaN.
    __device__ __forceinline__ float sum() const {
        float all = 0;
#pragma unroll
        for (float number : held)
            all += number;
        return all;
    }
};
//$ elif statistics_ahead
// A thread's numbers for the queries of a step: LSE in base 2, or D. They are loaded together, while products run.
struct Statistics {
    float numbers[STEP_M / 16][4];

    __device__ __forceinline__ void load(const float (&of_step)[STEP_M]) {
        const SharedAddress from = address_in_shared(of_step);
#pragma unroll
        for (int j = 0; j < STEP_M / 16; j++)
            load_statistics(numbers[j], from + 64 * j);
    }
    // Sets `number` to those of queries 16 j to 16 j + 15, [2 h + e].
    __device__ __forceinline__ void get(float (&number)[4], int j) const {
#pragma unroll
        for (int i = 0; i < 4; i++)
            number[i] = numbers[j][i];
    }
};
//$ else
// Where a thread finds its numbers for the queries of a step: LSE in base 2, or D. They are loaded when they are used, since registers
// have no room for all of them.
struct Statistics {
    SharedAddress from;

    __device__ __forceinline__ void load(const float (&of_step)[STEP_M]) { from = address_in_shared(of_step); }
    // Sets `number` to those of queries 16 j to 16 j + 15, [2 h + e].
    __device__ __forceinline__ void get(float (&number)[4], int j) const { load_statistics(number, from + 64 * j); }
};
//$ end
