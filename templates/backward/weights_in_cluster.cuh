//$ needs step_m head_dim head_dim_v
//$ include "backward/steps_in_cluster.cuh"
//$ include "backward/weigh_keys.cuh"

// The first warpgroup: P^T (BLOCK_KEYS keys, STEP_M queries) = e^(scale K Q^T - LSE), and dV.
struct WeightsRole : ClusterSteps {
    float dv[1][HEAD_DIM_V / 2];
    float s[STEP_M / 2];
    unsigned weights[STEP_M / 16][4]; // P^T in 16 bits

    using ClusterSteps::ClusterSteps;

    // Issues S^T = K Q^T of the step at distance `ahead`.
    __device__ __forceinline__ void multiply_scores(int ahead) {
        wgmma_fence();
        multiply_rows<HEAD_DIM, STEP_M>(s, matrix_descriptor(shared.k, 0), matrix_descriptor(shared.q[(ring + ahead).stage()], 0));
        wgmma_commit();
    }

    // S^T -> P^T of the step at distance `ahead`.
    __device__ __forceinline__ void weigh(int ahead) {
        wgmma_settle(s);
        Statistics lse2;
        lse2.load(shared.lse2[(ring + ahead).stage()]);
        const int query = step(ahead).first;
        if (whole(ahead))
            weigh_keys<false>(s, all, {}, lse2, query, item().key0 + own_row());
        else if (query >= 0)
            weigh_keys<true>(s, all, {}, lse2, query, item().key0 + own_row());
        pack_values(weights, s);
    }

    // Stores P^T for the second warpgroup once both blocks have read dS^T of the tile before; `tile`: its number.
    __device__ __forceinline__ void share(int tile) {
        barrier_wait(&shared.d_s_empty, tile & 1 ^ 1);
        barrier_wait(&shared.other_empty, tile & 1 ^ 1);
        uint4 *const to = own_weights();
#pragma unroll
        for (int j = 0; j < STEP_M / 16; j++)
            to[32 * j] = make_uint4(weights[j][0], weights[j][1], weights[j][2], weights[j][3]);
        release_by_warps(&shared.weights_full);
    }

    // Issues S^T of the next step after dV of this one. Nothing is in flight at the back edge of the loop. TMA may overwrite the statistics of
    // a step once the second warpgroup, too, has released its queries: that comes after a fence, and after P^T has been shared.
    __device__ __forceinline__ void run() {
        clear_sum(dv);
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
            add_to_sum<HEAD_DIM_V>(dv, weights, shared.d_o[d_o().stage()]);
            more = await_queries(1);
            multiply_scores(1); // of stale Q after the last step
            wgmma_wait<0>();
            wgmma_settle(dv[0]);
            release_d_o();
            weigh(1);
            if (more) {
                release_queries(1);
                share(tile() + 1);
            }
        }
        await_d_o(0);
        release_queries();
        release_d_o();
        ring.count++;
    }

    __device__ __forceinline__ void finish_item() { finish_keys<false, HEAD_DIM_V>(dv); }
};
