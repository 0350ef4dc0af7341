//$ needs step_m block_keys stages d_o_stages bfloat16
//$ include "backward/items.cuh"
//$ include "backward/repeat_keys.cuh"
//$ include "backward/store_rows.cuh"
//$ include "backward/unit_products.cuh"

// What the consumers of both blocks have in common: the walk over items and steps.
struct ClusterSteps {
    const attention_backward_params &params;
    const attention_params &all;
    SharedKeys &shared;
    Ring<1> keys;      // K and V of items
    Ring<STAGES> ring; // steps of all items

    __device__ __forceinline__ ClusterSteps(const attention_backward_params &params, SharedKeys &shared)
        : params(params), all(params.forward), shared(shared), keys{0}, ring{0} {}

    // Waits for K and V of the next item; false if there is none. A vote tells the compiler that item counts are uniform.
    __device__ __forceinline__ bool take() {
        barrier_wait(&shared.keys_full, keys.parity());
        return __any_sync(0xffffffffu, item().key0 >= 0);
    }
    __device__ __forceinline__ const Item &item() const { return shared.item; }
    // Releases K, V and the item, which threads of the warpgroup may still wait for or read, to the producers of both blocks.
    __device__ __forceinline__ void release_keys() {
        named_barrier_sync(warpgroup_index(), 128);
        if (threadIdx.x % 128 < 2) {
            fence_async(); // a copy may overwrite the item, and TMA statistics that the last step has read ahead
            barrier_arrive_at(&shared.keys_empty, threadIdx.x % 128);
        }
        keys.count++;
    }

    // Return the step, and the position in the ring of dO, at distance `ahead` from the current step.
    __device__ __forceinline__ const Step &step(int ahead = 0) const { return shared.step[(ring + ahead).stage()]; }
    __device__ __forceinline__ Ring<D_O_STAGES> d_o(int ahead = 0) const { return {ring.count + ahead}; }
    // True if every query of the step sees each of this block's keys.
    __device__ __forceinline__ bool whole(int ahead = 0) const { return step(ahead).whole >> cluster_rank() & 1; }

    // Waits for Q of a step; false if the step marks the end of the item.
    __device__ __forceinline__ bool await_queries(int ahead) {
        barrier_wait(&shared.q_full[(ring + ahead).stage()], (ring + ahead).parity());
        return !__any_sync(0xffffffffu, step(ahead).first < 0);
    }
    __device__ __forceinline__ void await_d_o(int ahead) { barrier_wait(&shared.d_o_full[d_o(ahead).stage()], d_o(ahead).parity()); }

    // Release Q with its statistics, and dO, to the producers of both blocks, since each loads half of them.
    __device__ __forceinline__ void release_queries(int ahead = 0) { release_to_both(&shared.q_empty[(ring + ahead).stage()]); }
    __device__ __forceinline__ void release_d_o(int ahead = 0) { release_to_both(&shared.d_o_empty[d_o(ahead).stage()]); }
    __device__ __forceinline__ static void release_to_both(Barrier *empty) {
        __syncwarp();
        if (threadIdx.x % 32 < 2)
            barrier_arrive_at(empty, threadIdx.x % 32);
    }

    // Releases the item, then stores dK or dV of this warp's 16 keys. Sums that are not finite are computed again.
    template <bool DK, int COLUMNS> __device__ __forceinline__ void finish_keys(const float (&sum)[1][COLUMNS / 2]) {
        const int kv_index = same_in_warp(item().kv_index), row0 = same_in_warp(item().key0 + own_row());
        const int batch = kv_index / all.kv_heads, kv_head = kv_index % all.kv_heads, rows = all.len_kv - row0;
        release_keys();
        const bool again = wants_repeat(sum[0]) && rows > 0;
        Nonfinite<COLUMNS / 2> nonfinite;
        if (again)
            nonfinite = nonfinite_sums(sum[0], rows);
        if constexpr (DK) {
            store_rows<COLUMNS>(sum, all.scale, params.dk, params.dk_batch_stride, params.dk_head_stride, params.dk_row_stride, batch,
                                kv_head, row0, rows);
            if (again)
                repeat_dk<columns_of_pass(COLUMNS)>(params, kv_index, row0, nonfinite);
        } else {
            store_rows<COLUMNS>(sum, 1, params.dv, params.dv_batch_stride, params.dv_head_stride, params.dv_row_stride, batch, kv_head,
                                row0, rows);
            if (again)
                repeat_dv<columns_of_pass(COLUMNS)>(params, kv_index, row0, nonfinite);
        }
    }

    // Number of this step's tile of pairs: one per step, except for the last step of each item.
    __device__ __forceinline__ int tile() const { return ring.count - keys.count; }

    // The thread's first key in the item; its second key is 8 further on.
    __device__ __forceinline__ static int own_row() {
        const int thread = static_cast<int>(threadIdx.x) % 128;
        return BLOCK_KEYS * cluster_rank() + thread / 32 * 16 + thread % 32 / 4;
    }
    // The thread's 16 bytes of P^T of the first 16 queries. Those of the next 16 are 512 bytes further on.
    __device__ __forceinline__ uint4 *own_weights() const {
        const int thread = static_cast<int>(threadIdx.x) % 128;
        return reinterpret_cast<uint4 *>(shared.pairs[0][thread / 32 * 16]) + thread % 32;
    }
};

// Issues sum (BLOCK_KEYS, COLUMNS) += pairs (BLOCK_KEYS, STEP_M) other (STEP_M, COLUMNS), half of the columns at a time.
template <int COLUMNS>
__device__ __forceinline__ void add_to_sum(float (&sum)[1][COLUMNS / 2], const unsigned (&pairs)[STEP_M / 16][4],
                                           Panels<COLUMNS / 64, STEP_M> &other) {
    wgmma_fence();
#pragma unroll
    for (int j = 0; j < STEP_M / 16; j++)
#pragma unroll
        for (int half = 0; half < 2; half++)
            wgmma_rs<COLUMNS / 2, true, false, BFLOAT16>(
                reinterpret_cast<float(&)[COLUMNS / 4]>(sum[0][half * (COLUMNS / 4)]), pairs[j],
                matrix_descriptor(other[half * (COLUMNS / 128)], STEP_M * 128) + j * ROWS_OF_STEP);
    wgmma_commit();
}
template <int COUNT> __device__ __forceinline__ void clear_sum(float (&sum)[1][COUNT]) {
#pragma unroll
    for (float &value : sum[0])
        value = 0;
    wgmma_settle(sum[0]);
}
