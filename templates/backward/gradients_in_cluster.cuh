//$ needs step_m head_dim head_dim_v bfloat16
//$ include "backward/steps_in_cluster.cuh"
//$ include "backward/weigh_keys.cuh"

// The second warpgroup: dS^T (BLOCK_KEYS keys, STEP_M queries) = P^T (V dO^T - D), which the third one of both blocks reads, and dK.
struct GradientsRole : ClusterSteps {
    float dk[1][HEAD_DIM / 2];
    float d_weight[STEP_M / 2];   // dP^T
    unsigned d_s[STEP_M / 16][4]; // dS^T in 16 bits

    using ClusterSteps::ClusterSteps;

    // Issues dP^T = V dO^T of the step at distance `ahead`.
    __device__ __forceinline__ void multiply_d_weights(int ahead) {
        wgmma_fence();
        multiply_rows<HEAD_DIM_V, STEP_M>(d_weight, matrix_descriptor(shared.v, 0), matrix_descriptor(shared.d_o[d_o(ahead).stage()], 0));
        wgmma_commit();
    }

    // dS^T = P^T (dP^T - D); if MASKED, 0 where P is 0, whatever dP of an unseen pair is.
    template <bool MASKED> __device__ __forceinline__ void weigh(const Statistics &dots) {
        const uint4 *const from = own_weights();
#pragma unroll
        for (int j = 0; j < STEP_M / 16; j++) {
            const uint4 four = from[32 * j];
            const unsigned weights[4] = {four.x, four.y, four.z, four.w};
            float dot_of[4];
            dots.get(dot_of, j);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float low = to_float(static_cast<Input>(weights[i])), high = to_float(static_cast<Input>(weights[i] >> 16));
                const float first = low * (d_weight[8 * j + 2 * i] - dot_of[i / 2 * 2]);
                const float second = high * (d_weight[8 * j + 2 * i + 1] - dot_of[i / 2 * 2 + 1]);
                d_s[j][i] = pack<BFLOAT16>(MASKED && low == 0 ? 0 : first, MASKED && high == 0 ? 0 : second);
            }
        }
    }

    // Computes dS^T of this step, and stores it in the place of P^T and in the other block.
    __device__ __forceinline__ void share() {
        wgmma_settle(d_weight);
        Statistics dots;
        dots.load(shared.dot[ring.stage()]);
        barrier_wait(&shared.weights_full, tile() & 1);
        if (whole())
            weigh<false>(dots);
        else
            weigh<true>(dots);
        __syncwarp(); // the warp has read its 16 rows of P^T
        const int lane = static_cast<int>(threadIdx.x) % 32, first = static_cast<int>(threadIdx.x) % 128 / 32 * 16;
        const int chunk = opaque(lane / 16 ^ lane % 8);
#pragma unroll
        for (int i = 0; i < STEP_M / 16; i++)
            store_matrices(&shared.pairs[0][first + lane % 16][(2 * i ^ chunk) * 8], d_s[i][0], d_s[i][1], d_s[i][2], d_s[i][3]);
        fence_async();
        __syncwarp();
        if (lane == 0) {
            barrier_arrive(&shared.d_s_full);
            if (threadIdx.x % 128 == 0)
                barrier_expect(&shared.other_full, sizeof shared.pairs_other);
            constexpr int BYTES = 16 * sizeof shared.pairs[0][0]; // of this warp's keys
            copy_to_block(shared.pairs_other[0][first], shared.pairs[0][first], BYTES, &shared.other_full, cluster_rank() ^ 1);
        }
        __syncwarp(); // products need whole warps
    }

    // Issues dP^T of the next step after dK of this one. Nothing is in flight at the back edge of the loop.
    __device__ __forceinline__ void run() {
        clear_sum(dk);
        bool more = await_queries(0);
        await_d_o(0);
        if (more) {
            multiply_d_weights(0);
            wgmma_wait<0>();
            release_d_o(0);
        }
#pragma unroll 1
        for (; more; ring.count++) {
            share();
            add_to_sum<HEAD_DIM>(dk, d_s, shared.q[ring.stage()]);
            more = await_queries(1);
            await_d_o(1);
            multiply_d_weights(1); // of stale dO after the last step
            wgmma_wait<0>();
            wgmma_settle(dk[0]);
            release_queries();
            if (more)
                release_d_o(1);
        }
        release_queries();
        release_d_o();
        ring.count++;
    }

    __device__ __forceinline__ void finish_item() { finish_keys<true, HEAD_DIM>(dk); }
};
