//$ needs block_n d_weight_keys head_dim_v bfloat16
//$ include "backward/role_steps.cuh"

// The second warpgroup: dS (64 queries, BLOCK_N keys) = P (dO V^T - D), which all warpgroups read, and the first panels of dK.
constexpr int GRADIENTS_DK = 2;

struct GradientsRole : RoleSteps<0, 0, 0, GRADIENTS_DK> {
    float d_weight[D_WEIGHT_KEYS / 2]; // dP of a part of the keys

    using RoleSteps::RoleSteps;

    // Issues dP = dO V^T of a part of the keys, of the step at distance `ahead`.
    __device__ __forceinline__ void multiply_d_weights(int ahead, int part) {
        wgmma_fence();
        multiply_rows<HEAD_DIM_V, D_WEIGHT_KEYS, BLOCK_N>(
            d_weight, matrix_descriptor(shared.d_o[d_o(ahead).stage()], 0),
            matrix_descriptor(shared.v[keys.stage()][0][0][opaque(part * D_WEIGHT_KEYS)], 0));
        wgmma_commit();
    }

    // Stores dS = P (dP - D) of a part of the keys; if MASKED, 0 where P is 0, whatever dP of an unseen pair is.
    template <bool MASKED> __device__ __forceinline__ void weigh(const float (&dot)[2], int part) {
#pragma unroll
        for (int j = 0; j < D_WEIGHT_KEYS / 16; j++) {
            const int sixteen = part * (D_WEIGHT_KEYS / 16) + j;
            unsigned weights[4], d_s[4];
            load_matrices(weights, place_of_pairs(shared.weights, sixteen));
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float low = to_float(static_cast<Input>(weights[i])), high = to_float(static_cast<Input>(weights[i] >> 16));
                const float first = low * (d_weight[8 * j + 2 * i] - dot[i % 2]);
                const float second = high * (d_weight[8 * j + 2 * i + 1] - dot[i % 2]);
                d_s[i] = pack<BFLOAT16>(MASKED && low == 0 ? 0 : first, MASKED && high == 0 ? 0 : second);
            }
            store_pairs(shared.d_s[d_s_stage()], sixteen, d_s);
        }
    }

    // Computes dS for all warpgroups, from dP of the first part.
    __device__ __forceinline__ void share() {
        const int row = own_row();
        const float dot[2] = {shared.dot[ring.stage()][row_place(row)], shared.dot[ring.stage()][row_place(row + 8)]};
        await_weights();
        barrier_wait(&shared.d_s_empty[d_s_stage()], tile() >> 1 & 1 ^ 1);
#pragma unroll
        for (int part = 0; part < BLOCK_N / D_WEIGHT_KEYS; part++) {
            if (part > 0) {
                multiply_d_weights(0, part);
                wgmma_wait<0>();
            }
            wgmma_settle(d_weight);
            if (step().whole & 1)
                weigh<false>(dot, part);
            else
                weigh<true>(dot, part);
        }
        release_by_warps(&shared.weights_empty);
        fence_async();
        __syncwarp();
        if (elect_one())
            barrier_arrive(&shared.d_s_full[d_s_stage()]);
        release_d_o(); // dP is complete
    }

    // Nothing is in flight at the back edge of the loop.
    __device__ __forceinline__ void run() {
        bool more = await_queries(0);
        if (more) {
            await_d_o(0);
            multiply_d_weights(0, 0);
            wgmma_wait<0>();
        }
#pragma unroll 1
        for (; more; ring.count++) {
            share();
            more = await_queries(1);
            await_d_o(1);
            multiply_d_weights(1, 0); // of stale dO after the last step
            await_d_s();
            add_dk();
            wgmma_wait<0>();
            settle_dk();
            release_queries();
        }
    }
};
