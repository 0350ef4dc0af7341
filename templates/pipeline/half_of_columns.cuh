//$ needs block_n stages panels output_panels output_columns k_bytes bfloat16 p_steps q_steps
//$ include "fragment/weight_of_score.cuh"
//$ include "walk/keys_of_query.cuh"

// One of the two consumer warpgroups. It has the columns of O from OUTPUT_COLUMNS * index on, and it computes S and P of every other
// K/V tile. A thread has rows `row` and `row` + 8 of all of them.
struct Consumer {
    Shared &shared;
    int index, row;
    float c;                    // from m and s to exponents of 2
    unsigned long long q, k, v; // matrix descriptors: of Q; of K and of this half of V in stage 0
    Ring<STAGES> ring;          // the first K/V tile of the Q tile
    float s[BLOCK_N / 2], o[OUTPUT_COLUMNS / 2];
    unsigned weights[BLOCK_N / 16][4]; // P of an own tile
    float max[2], sum[2];              // m; this thread's share of l, of own tiles

    __device__ __forceinline__ Consumer(Shared &shared, int index, float c)
        : shared(shared), index(index), row(warp_index() % 4 * 16 + static_cast<int>(threadIdx.x) % 32 / 4), c(c),
          q(matrix_descriptor(shared.q, 0)), k(matrix_descriptor(shared.k[0], 0)),
          v(matrix_descriptor(shared.k[0][OUTPUT_PANELS * index], BLOCK_N * 128)), ring{0} {}

    // O (64, HEAD_DIM_V), m and l of the block's K/V tiles. On return they are final, and l is in shared memory.
    __device__ __forceinline__ void multiply(const attention_params &p, const KeyWalk &walk, const Tile &tile) {
        load_queries(p, tile, shared.q);
#pragma unroll
        for (float &x : o)
            x = 0;
        max[0] = max[1] = -INFINITY;
        sum[0] = sum[1] = 0;
        const int tiles = ::max(0, walk.end - walk.tile);
        if (index == 1 && tiles > 0)
            other_tile(0);
#pragma unroll 1
        for (int i = index; i < tiles; i += 2) {
            own_tile(i, walk.keys - (walk.tile + i) * BLOCK_N);
            if (i + 1 < tiles)
                other_tile(i + 1);
        }
        wgmma_wait<0>();
        wgmma_settle(o);
        if (tiles > 0)
            release(&shared.empty[(ring + (tiles - 1)).stage()]);
        ring.count += tiles;
#pragma unroll
        for (int r = 0; r < 2; r++) {
            sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], 1);
            sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], 2);
            if (threadIdx.x % 4 == 0)
                shared.sum[index][row + 8 * r] = sum[r];
        }
        named_barrier_sync(3, 256);
    }

    // S, P and O += P V of a tile, of which `keys` keys are there. During the softmax the tensor cores multiply for the other one.
    __device__ __forceinline__ void own_tile(int i, int keys) {
        const Ring<STAGES> at = ring + i;
        barrier_wait(&shared.full[at.stage()], at.parity());
        if (keys < BLOCK_N)
            clear_rows(shared.k[at.stage()], keys);
        wgmma_fence();
        wgmma_ss_nt<BLOCK_N, Q_STEPS, BFLOAT16>(s, q, k + at.stage() * (K_BYTES / 16)); // S (64, 64) = Q K^T
        wgmma_commit();
        if (i > 0) {
            wgmma_wait<1>();
            release(&shared.empty[(ring + (i - 1)).stage()]); // O has the tile before
        }
        wgmma_wait<0>();
        wgmma_settle(s);
        wgmma_settle(o);
        if (keys < BLOCK_N)
            mask_columns(keys);
        float top[2] = {max[0], max[1]};
#pragma unroll
        for (int j = 0; j < BLOCK_N / 2; j++)
            top[j / 2 % 2] = fmaxf(top[j / 2 % 2], s[j]);
#pragma unroll
        for (int r = 0; r < 2; r++) {
            top[r] = fmaxf(top[r], __shfl_xor_sync(0xffffffffu, top[r], 1));
            top[r] = fmaxf(top[r], __shfl_xor_sync(0xffffffffu, top[r], 2));
            if (threadIdx.x % 4 == 0)
                shared.max[index][row + 8 * r] = top[r];
        }
        float own[2] = {0, 0};
#pragma unroll
        for (int j = 0; j < BLOCK_N / 2; j++)
            own[j / 2 % 2] += s[j] = weight_of(s[j], top[j / 2 % 2], c);
#pragma unroll
        for (int j = 0; j < BLOCK_N / 4; j++)
            weights[j / 4][j % 4] = pack<BFLOAT16>(s[2 * j], s[2 * j + 1]);
        publish_weights(shared.k[at.stage()][PANELS - 1]);
        raise_max(top);
        sum[0] += own[0], sum[1] += own[1];
        wgmma_fence();
        wgmma_rs_nn<OUTPUT_COLUMNS, P_STEPS, BFLOAT16>(o, weights, v + at.stage() * (K_BYTES / 16)); // O (64, half) += P V
        wgmma_commit();
    }

    // O += P V of a tile whose P the other warpgroup has published.
    __device__ __forceinline__ void other_tile(int i) {
        const Ring<STAGES> at = ring + i;
        barrier_wait(&shared.full[at.stage()], at.parity());
        named_barrier_sync(2 - index, 256);
        const float top[2] = {shared.max[1 - index][row], shared.max[1 - index][row + 8]};
        wgmma_wait<0>();
        wgmma_settle(o);
        if (i > 0)
            release(&shared.empty[(ring + (i - 1)).stage()]);
        raise_max(top);
        wgmma_fence();
        wgmma_ss_nn<OUTPUT_COLUMNS, P_STEPS, BFLOAT16>(o, matrix_descriptor(shared.k[at.stage()][PANELS - 1], 0),
                                                       v + at.stage() * (K_BYTES / 16));
        wgmma_commit();
    }

    // P (64, 64) to the other warpgroup, with m.
    __device__ __forceinline__ void publish_weights(unsigned short (&to)[BLOCK_N][64]) {
        const int line = warp_index() % 4 * 16 + threadIdx.x % 16;
#pragma unroll
        for (int step = 0; step < P_STEPS; step++)
            store_matrices(&to[line][((2 * step + threadIdx.x % 32 / 16) ^ line % 8) * 8], weights[step][0], weights[step][1],
                           weights[step][2], weights[step][3]);
        fence_async();
        named_barrier_arrive(1 + index, 256);
    }

    // l and O relative to m' = `top`; most tiles leave m as it is.
    __device__ __forceinline__ void raise_max(const float (&top)[2]) {
        if (!__any_sync(0xffffffffu, top[0] > max[0] || top[1] > max[1]))
            return;
        const float keep[2] = {weight_of(max[0], top[0], c), weight_of(max[1], top[1], c)};
#pragma unroll
        for (int r = 0; r < 2; r++) {
            max[r] = top[r];
            sum[r] *= keep[r];
        }
#pragma unroll
        for (int j = 0; j < OUTPUT_COLUMNS / 2; j++)
            o[j] *= keep[j / 2 % 2];
    }

    // Zeros for the rows of a tile that are no keys, or none that the query sees: 0 * NaN is NaN.
    __device__ __forceinline__ void clear_rows(Panels<PANELS, BLOCK_N> &tile, int keys) {
#pragma unroll 1
        for (int line = keys * PANELS * 8 + static_cast<int>(threadIdx.x) % 128; line < BLOCK_N * PANELS * 8; line += 128)
            *reinterpret_cast<uint4 *>(&tile[line / 8 % PANELS][line / (PANELS * 8)][line % 8 * 8]) = make_uint4(0, 0, 0, 0);
        fence_async();
        named_barrier_sync(5 + index, 128);
    }

    __device__ __forceinline__ void mask_columns(int keys) {
#pragma unroll
        for (int j = 0; j < BLOCK_N / 2; j++)
            if (j / 4 * 8 + static_cast<int>(threadIdx.x) % 4 * 2 + j % 2 >= keys)
                s[j] = -INFINITY;
    }
};
