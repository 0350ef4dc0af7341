//$ needs block_n head_dim bfloat16
//$ include "backward/role_steps.cuh"

// The first warpgroup: P (64 queries, BLOCK_N keys) = e^(scale Q K^T - LSE), which all warpgroups read, and the first panels of dV.
constexpr int WEIGHTS_DV = 2;

struct WeightsRole : RoleSteps<0, WEIGHTS_DV, 0, 0> {
    float s[BLOCK_N / 2];
    unsigned weights[BLOCK_N / 16][4]; // P in 16 bits

    using RoleSteps::RoleSteps;

    // Issues S = Q K^T of the step at distance `ahead`.
    __device__ __forceinline__ void multiply_scores(int ahead) {
        wgmma_fence();
        multiply_rows<HEAD_DIM, BLOCK_N>(s, matrix_descriptor(shared.q[(ring + ahead).stage()], 0),
                                         matrix_descriptor(shared.k[keys.stage()][0], 0));
        wgmma_commit();
    }

    // S -> P of the step at distance `ahead`.
    __device__ __forceinline__ void weigh(int ahead) {
        wgmma_settle(s);
        const int stage = (ring + ahead).stage();
        const Step &of = shared.step[stage];
        const attention_params &p = own_sequence(all, item());
        const int row = own_row();
        const float lse2[2] = {shared.lse2[stage][row_place(row)], shared.lse2[stage][row_place(row + 8)]};
        if (of.whole & 1)
            weigh_queries<false>(s, p, {}, lse2, of.first + row, item().key0);
        else if (of.first >= 0)
            weigh_queries<true>(s, p, {}, lse2, of.first + row, item().key0);
#pragma unroll
        for (int j = 0; j < BLOCK_N / 16; j++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                weights[j][i] = pack<BFLOAT16>(s[8 * j + 2 * i], s[8 * j + 2 * i + 1]);
        await_queries(ahead); // waits again, which keeps the assembler from waiting for dV before the exponentials
    }

    // Stores P for all warpgroups once they have read the tile before; `tile`: its number.
    __device__ __forceinline__ void share(int tile) {
        barrier_wait(&shared.weights_empty, tile & 1 ^ 1);
#pragma unroll
        for (int j = 0; j < BLOCK_N / 16; j++)
            store_pairs(shared.weights, j, weights[j]);
        fence_async();
        __syncwarp();
        if (elect_one())
            barrier_arrive(&shared.weights_full);
    }

    // Nothing is in flight at the back edge of the loop.
    __device__ __forceinline__ void run() {
        bool more = await_queries(0);
        if (more) {
            multiply_scores(0);
            wgmma_wait<0>();
            weigh(0);
            release_queries(0);
            share(tile());
        }
#pragma unroll 1
        for (; more; ring.count++) {
            await_d_o(0);
            await_weights();
            more = await_queries(1);
            multiply_scores(1); // of stale Q after the last step
            add_dv();
            wgmma_wait<1>();
            weigh(1);
            if (more)
                release_queries(1);
            wgmma_wait<0>();
            settle_dv();
            release(&shared.weights_empty);
            release_d_o();
            if (more)
                share(tile() + 1);
        }
        fence_async(); // TMA may now overwrite the statistics: the last step has read those of the step without queries
    }
};
