//$ needs panels panels_v block_n dq_ordered
//$ include "backward/role_of_weights.cuh"
//$ include "backward/role_of_gradients.cuh"

// The third warpgroup: dQ (64 queries, d) = dS K, 64 columns at a time, which it adds to the sums, and the last panels of dV and dK.
struct DqRole : RoleSteps<WEIGHTS_DV, PANELS_V - WEIGHTS_DV, GRADIENTS_DK, PANELS - GRADIENTS_DK> {
    float dq[32]; // dQ (64 queries, 64 columns)

    using RoleSteps::RoleSteps;

    // Nothing is in flight at the back edge of the loop.
    __device__ __forceinline__ void run() {
#pragma unroll 1
        for (; await_queries(0); ring.count++) {
            const int sums = step().sums;
            ask_for_order(order_of_step(shared, tile()), {sums, item().key0 / BLOCK_N}); //$ if dq_ordered
            await_d_o(0);
            await_weights();
            add_dv();
            await_d_s();
            multiply_dq(dq, 0);
            add_dk();
            wgmma_wait<1>();
            settle_dv();
            release_d_o();
            release(&shared.weights_empty);
            await_order(shared, tile()); //$ if dq_ordered
            add_dq(dq, sums, 0);
#pragma unroll
            for (int panel = 1; panel < PANELS; panel++) {
                multiply_dq(dq, panel);
                wgmma_wait<0>();
                if (panel == 1) {
                    settle_dk();
                    release_queries();
                }
                if (panel == PANELS - 1)
                    release(&shared.d_s_empty[d_s_stage()]);
                add_dq(dq, sums, panel);
            }
            release_by_warps(&order_of_step(shared, tile()).added); //$ if dq_ordered
        }
    }
};
