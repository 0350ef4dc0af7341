//$ needs step_m block_n bfloat16 stages d_o_stages key_stages head_dim dq_ordered
//$ include "backward/panel_sums.cuh"
//$ include "backward/weigh_queries.cuh"
//$ include "backward/add_or_store.cuh" if dq_ordered else "target/sm_90_sums.cuh"

// What the consumers have in common: the walk over items and steps, and the products that read P or dS from shared memory.
template <int DV_FIRST, int DV_COUNT, int DK_FIRST, int DK_COUNT>
struct RoleSteps : PanelSums<DV_FIRST, DV_COUNT, DK_FIRST, DK_COUNT> {
    using Sums = PanelSums<DV_FIRST, DV_COUNT, DK_FIRST, DK_COUNT>;
    using Sums::dk, Sums::dv, Sums::await_warps;
    const attention_backward_params &params;
    const attention_params &all; // parameters of all sequences
    SharedKeys &shared;
    Ring<KEY_STAGES> keys; // K and V of items
    Ring<STAGES> ring;     // steps of all items

    __device__ __forceinline__ RoleSteps(const attention_backward_params &params, SharedKeys &shared)
        : params(params), all(params.forward), shared(shared), keys{0}, ring{0} {}

    // Waits for K and V of the next item; false if there is none. A vote tells the compiler that item counts are uniform.
    __device__ __forceinline__ bool take() {
        barrier_wait(&shared.keys_full[keys.stage()], keys.parity());
        Sums::clear();
        return __any_sync(0xffffffffu, item().key0 >= 0);
    }
    __device__ __forceinline__ const Item &item() const { return shared.item[keys.count % ITEMS_KEPT]; }

    // Return the step, and the position in the ring of dO, at distance `ahead` from the current step.
    __device__ __forceinline__ const Step &step(int ahead = 0) const { return shared.step[(ring + ahead).stage()]; }
    __device__ __forceinline__ Ring<D_O_STAGES> d_o(int ahead = 0) const { return {ring.count + ahead}; }

    // Waits for Q of a step; false if the step marks the end of the item.
    __device__ __forceinline__ bool await_queries(int ahead) {
        barrier_wait(&shared.q_full[(ring + ahead).stage()], (ring + ahead).parity());
        return !__any_sync(0xffffffffu, step(ahead).first < 0);
    }
    __device__ __forceinline__ void await_d_o(int ahead) { barrier_wait(&shared.d_o_full[d_o(ahead).stage()], d_o(ahead).parity()); }

    // Release Q, its statistics and the step, which each warp reads itself; and dO.
    __device__ __forceinline__ void release_queries(int ahead = 0) { release_by_warps(&shared.q_empty[(ring + ahead).stage()]); }
    __device__ __forceinline__ void release_d_o() { release(&shared.d_o_empty[d_o().stage()]); }
    // Releases the step that marks the end of the item, K and V. Then stores the sums.
    __device__ __forceinline__ void finish_item() {
        await_d_o(0);
        await_warps(); // one thread releases dO, K and V for its warpgroup, whose other warps may still wait for them
        release_queries();
        release_d_o();
        ring.count++;
        release(&shared.keys_empty[keys.stage()]);
        Sums::store(params, shared, keys.count % ITEMS_KEPT);
        keys.count++;
    }

    // Number of this step's tiles of P and dS: one per step, except for the last step of each item.
    __device__ __forceinline__ int tile() const { return ring.count - keys.count; }
    __device__ __forceinline__ int d_s_stage() const { return tile() & 1; }
    __device__ __forceinline__ void await_weights() { barrier_wait(&shared.weights_full, tile() & 1); }
    __device__ __forceinline__ void await_d_s() { barrier_wait(&shared.d_s_full[d_s_stage()], tile() >> 1 & 1); }

    // The thread's first row in a tile of 64 queries; its second row is 8 further on.
    __device__ __forceinline__ static int own_row() {
        return static_cast<int>(threadIdx.x) % 128 / 32 * 16 + static_cast<int>(threadIdx.x) % 32 / 4;
    }

    // Issues dV^T (64 columns, BLOCK_N) += dO^T P for each panel of this warpgroup.
    __device__ __forceinline__ void add_dv() {
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < DV_COUNT; i++)
            add_transposed(dv[i], shared.d_o[d_o().stage()][DV_FIRST + i], shared.weights);
        wgmma_commit();
    }
    // Issues dK^T (64 columns, BLOCK_N) += Q^T dS for each panel of this warpgroup.
    __device__ __forceinline__ void add_dk() {
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < DK_COUNT; i++)
            add_transposed(dk[i], shared.q[ring.stage()][DK_FIRST + i], shared.d_s[d_s_stage()]);
        wgmma_commit();
    }
    __device__ __forceinline__ static void add_transposed(float (&sum)[BLOCK_N / 2], unsigned short (&rows)[STEP_M][64],
                                                          const PairsTile &pairs) {
        const unsigned long long a = matrix_descriptor(rows, 0), b = matrix_descriptor(pairs, STEP_M * 128);
#pragma unroll
        for (int i = 0; i < STEP_M / 16; i++)
            wgmma_ss<BLOCK_N, true, true, false, BFLOAT16>(sum, a + i * ROWS_OF_STEP, b + i * ROWS_OF_STEP);
    }
    // Issues 64 columns of dQ (64 queries, d) = dS K. The compiler would keep the descriptors of K from step to step: opaque().
    __device__ __forceinline__ void multiply_dq(float (&dq)[32], int panel) {
        const unsigned long long a = matrix_descriptor(shared.d_s[d_s_stage()], 0);
        const unsigned long long b = matrix_descriptor(shared.k[keys.stage()][0][opaque(panel)], 0);
        wgmma_fence();
        wgmma_ss<64, false, false, false, BFLOAT16>(dq, a, b);
#pragma unroll
        for (int i = 1; i < BLOCK_N / 16; i++)
            wgmma_ss<64, true, false, false, BFLOAT16>(dq, a + i / 4 * (STEP_M * 128 / 16) + i % 4 * COLUMNS_OF_STEP,
                                                       b + i * ROWS_OF_STEP);
        wgmma_commit();
    }
    // Adds these columns to the sums of the step's queries, or stores them if they are the first. Call after a wait. //$ if dq_ordered
    // Adds these columns to the sums of the step's queries. Call after a wait.                                      //$ else
    __device__ __forceinline__ void add_dq(float (&dq)[32], int sums, int panel) {
        wgmma_settle(dq);
        float *const to = dq_sums(all, sums) + panel * 64 * 64 + opaque(static_cast<int>(threadIdx.x) % 128) * 4;
#pragma unroll
        for (int i = 0; i < 8; i++)
            if (HEAD_DIM % 64 == 0 || 64 * panel + 8 * i < HEAD_DIM)
                add_or_store(to + i * 512, item().key0 == 0, dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]); //$ if dq_ordered
                add_to_memory(to + i * 512, dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]);                  //$ else
    }
};

// The place in a tile of pairs of the matrices of 16 keys that this lane loads or stores (load_matrices, store_matrices).
__device__ __forceinline__ unsigned short *place_of_pairs(PairsTile &tile, int sixteen) {
    const int lane = static_cast<int>(threadIdx.x) % 32, row = static_cast<int>(threadIdx.x) % 128 / 32 * 16 + lane % 16;
    const int chunk = opaque(lane / 16 ^ lane % 8); // keeps the compiler from holding the addresses of all chunks from step to step
    return &tile[sixteen / 4][row][(2 * sixteen % 8 ^ chunk) * 8];
}
__device__ __forceinline__ void store_pairs(PairsTile &tile, int sixteen, const unsigned (&pairs)[4]) {
    store_matrices(place_of_pairs(tile, sixteen), pairs[0], pairs[1], pairs[2], pairs[3]);
}
