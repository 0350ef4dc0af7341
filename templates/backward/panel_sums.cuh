//$ needs block_n head_dim head_dim_v items_in_parts
//$ include "backward/parts.cuh" if items_in_parts
//$ include "backward/store_panels.cuh"

// What a consumer keeps of dK and dV: DV_COUNT panels of 64 columns of dV from panel DV_FIRST on, and likewise panels of dK.
template <int DV_FIRST, int DV_COUNT, int DK_FIRST, int DK_COUNT> struct PanelSums {
    // transposed: (64 columns, BLOCK_N keys) of each panel
    float dv[DV_COUNT > 0 ? DV_COUNT : 1][BLOCK_N / 2], dk[DK_COUNT > 0 ? DK_COUNT : 1][BLOCK_N / 2];

    __device__ __forceinline__ void clear() {
        clear(dv);
        clear(dk);
    }
    template <int COUNT> __device__ __forceinline__ static void clear(float (&sums)[COUNT][BLOCK_N / 2]) {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
#pragma unroll
            for (float &value : sums[i])
                value = 0;
            wgmma_settle(sums[i]);
        }
    }
    // Call after a wait.
    __device__ __forceinline__ void settle_dv() {
#pragma unroll
        for (int i = 0; i < DV_COUNT; i++)
            wgmma_settle(dv[i]);
    }
    __device__ __forceinline__ void settle_dk() {
#pragma unroll
        for (int i = 0; i < DK_COUNT; i++)
            wgmma_settle(dk[i]);
    }

    __device__ __forceinline__ static void await_warps() { named_barrier_sync(warpgroup_index(), 128); }

    //$ if items_in_parts
    static constexpr int VECTORS = BLOCK_N / 8; // of four sums, per thread and panel
    template <int COUNT>
    __device__ __forceinline__ static void store_sums(const float (&sums)[COUNT][BLOCK_N / 2], int count, float4 *to) {
#pragma unroll
        for (int n = 0; n < count; n++)
#pragma unroll
            for (int i = 0; i < VECTORS; i++)
                to[32 * (VECTORS * n + i)] = make_float4(sums[n][4 * i], sums[n][4 * i + 1], sums[n][4 * i + 2], sums[n][4 * i + 3]);
    }

    // True if the sums are those of the whole item: there is one part, or this warpgroup is the last, and has added the others'.
    __device__ __forceinline__ bool join_parts(const attention_params &p, SharedKeys &shared, const Item &part) {
        const int parts = same_in_warp(part.parts), warp = warp_index() - 4, lane = opaque(static_cast<int>(threadIdx.x) % 32);
        if (parts <= 1)
            return true;
        float4 *const own = sums_of_part(p, part, part.part, warp) + lane;
        store_sums(dv, DV_COUNT, own);
        store_sums(dk, DK_COUNT, own + 32 * VECTORS * DV_COUNT);
        await_warps(); // before the arrival, which publishes the stores of all warps
        int &before = shared.parts_before[warpgroup_index() - 1];
        if (threadIdx.x % 128 == 0)
            before = atomic_add_acq_rel(counters_of(p, part) + warp, 1);
        await_warps(); // the first thread has acquired the sums of the others
        if (same_in_warp(before) < parts - 1)
            return false;
#pragma unroll
        for (int i = 0; i < DV_COUNT; i++)
            add_parts(dv[i], p, part, parts, warp, lane + 32 * VECTORS * i);
#pragma unroll
        for (int i = 0; i < DK_COUNT; i++)
            add_parts(dk[i], p, part, parts, warp, lane + 32 * VECTORS * (DV_COUNT + i));
        return true;
    }
    //$ end
    // Stores this warpgroup's panels of dK and dV of the item in a slot, and recomputes those that have elements that are not finite.
    __device__ __forceinline__ void store(const attention_backward_params &params, SharedKeys &shared, int slot) {
        const Item &item = shared.item[slot];
        if (!join_parts(params.forward, shared, item)) return; //$ if items_in_parts
        const int kv_index = same_in_warp(item.kv_index), key0 = same_in_warp(item.key0);
        const attention_backward_params &own = tensors_of_keys(params, kv_index);
        const GradientRows dv_rows = rows_of_dv(own, kv_index, key0), dk_rows = rows_of_dk(own, kv_index, key0);
        unsigned short(&transposed)[16][16] = shared.transposed[warp_index() - 4];
        bool again = false;
#pragma unroll
        for (int i = 0; i < DV_COUNT; i++)
            again |= store_panel<HEAD_DIM_V>(dv[i], 1, dv_rows, DV_FIRST + i, transposed);
#pragma unroll
        for (int i = 0; i < DK_COUNT; i++)
            again |= store_panel<HEAD_DIM>(dk[i], params.forward.scale, dk_rows, DK_FIRST + i, transposed);
        int &some_again = shared.panels_again[warpgroup_index() - 1][slot];
        if (again && threadIdx.x % 32 == 0)
            atomicMax(&some_again, 1);
        await_warps();
        if (some_again == 0)
            return;
#pragma unroll 1
        for (int i = 0; i < DV_COUNT; i++)
            repeat_panel<false, HEAD_DIM_V>(own, kv_index, key0, dv_rows, DV_FIRST + i);
#pragma unroll 1
        for (int i = 0; i < DK_COUNT; i++)
            repeat_panel<true, HEAD_DIM>(own, kv_index, key0, dk_rows, DK_FIRST + i);
        await_warps();
        if (threadIdx.x % 128 == 0)
            some_again = 0;
        await_warps();
    }
};
