//$ needs step_n stages consumers
//$ include "backward/drawers.cuh"
//$ include "backward/other_tiles.cuh"

// Draws which pairs of each K tile dropout keeps: bit i of a consumer thread is for element i of its S.
__device__ __forceinline__ void draw_keys(const attention_params &all, SharedQueries &shared, int index, int query0, int drawer) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const bool elected = elect_one();
    const Where at = where_is(all, index);
    const Dropout dropout = dropout_of(all, index);
    KeyTiles walk = key_tiles(own_sequence(all, shared), at, query0);
#pragma unroll 1
    for (Ring<STAGES> ring = {0};; ring.count++) {
        const int key0 = next_keys(own_sequence(all, shared), at, walk);
        barrier_wait(&shared.k_empty[ring.stage()], ring.parity() ^ 1);
#pragma unroll 1
        for (int i = (drawer + ring.count) % DRAWERS; i < 4 * CONSUMERS * (STEP_N / 32) && key0 >= 0; i += DRAWERS) {
            const int warp = i / (STEP_N / 32), keys = i % (STEP_N / 32);
            const int query = query0 + 16 * warp + lane / 4, key = key0 + 32 * keys + lane % 4 * 2;
            unsigned bits = 0;
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const uint4 numbers = random_numbers(dropout, query, key + e);
                bits |= kept_bits(dropout, numbers.x, e, e + 2) | kept_bits(dropout, numbers.y, e + 4, e + 6) |
                        kept_bits(dropout, numbers.z, e + 8, e + 10) | kept_bits(dropout, numbers.w, e + 12, e + 14);
            }
            shared.kept[ring.stage()][warp / 4][warp % 4 * 32 + lane][keys] = static_cast<unsigned short>(bits);
        }
        __syncwarp();
        if (elected)
            barrier_arrive(&shared.k_full[ring.stage()]);
        if (key0 < 0)
            break;
    }
}
