//$ needs block_n step_m stages kept_stages
//$ include "backward/drawers.cuh"
//$ include "backward/help_with_items.cuh"
//$ include "backward/other_tiles.cuh"

// Draws which pairs of each Q tile dropout keeps: bit i of a consumer thread is for element i of its S^T. A Philox call covers 32 keys,
// which are rows of two warps.
__device__ __forceinline__ void draw_steps(const attention_params &all, SharedKeys &shared, const Item &item, Ring<STAGES> &ring, int drawer) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const bool elected = elect_one();
    QueryTiles walk = queries_of(own_sequence(all, item), item);
    bool last = false;
#pragma unroll 1
    for (; !last; ring.count++) {
        const OtherTile tile = next_queries(own_sequence(all, item), walk);
        const Dropout dropout = dropout_of(all, tile.index);
        last = tile.first < 0;
        const Ring<KEPT_STAGES> bits = {ring.count};
        barrier_wait(&shared.kept_empty, bits.parity() ^ 1);            //$ if kept_stages == 1
        barrier_wait(&shared.q_empty[ring.stage()], ring.parity() ^ 1); //$ else
#pragma unroll 1
        for (int i = (drawer + ring.count) % DRAWERS; i < BLOCK_N / 32 * (STEP_M / 32) && !last; i += DRAWERS) {
            const int keys = i / (STEP_M / 32), queries = i % (STEP_M / 32), warp = keys % 2 * 2;
            const int query = tile.first + 32 * queries + lane % 4 * 2, key = item.key0 + 32 * keys + lane / 4;
            unsigned first = 0, second = 0; // bits of the two warps
#pragma unroll
            for (int n = 0; n < 4; n++) {
                const uint4 numbers = random_numbers(dropout, query + n / 2 * 16 + n % 2, key);
                const int at = n / 2 * 8 + n % 2;
                first |= kept_bits(dropout, numbers.x, at, at + 4) | kept_bits(dropout, numbers.y, at + 2, at + 6);
                second |= kept_bits(dropout, numbers.z, at, at + 4) | kept_bits(dropout, numbers.w, at + 2, at + 6);
            }
            auto &kept = shared.kept[bits.stage()][keys / 2];
            kept[32 * warp + lane][queries] = static_cast<unsigned short>(first);
            kept[32 * warp + 32 + lane][queries] = static_cast<unsigned short>(second);
        }
        __syncwarp();
        if (elected)
            barrier_arrive(&shared.q_full[ring.stage()]);
    }
}

// Does the same for all items that the block takes.
__device__ __forceinline__ void draw_queries(const attention_params &p, SharedKeys &shared, int drawer) {
    Ring<STAGES> steps = {0};
    help_with_items(shared, [&](const Item &item) { draw_steps(p, shared, item, steps, drawer); });
}
