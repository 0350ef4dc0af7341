//$ needs block_m block_n stages panels output_panels output_columns k_bytes bfloat16 p_steps
//$ include "fragment/weight_of_score.cuh"
//$ include "pipeline/panel_of_step.cuh"
//$ include "walk/keys_of_query.cuh"

// One of the two consumer warpgroups. It holds the columns of O from OUTPUT_COLUMNS * index on, and it computes S and P of every
// other K/V tile, its own tiles. A thread holds rows `row` and `row` + 8 of O, S and P. A warpgroup waits for each of its products;
// meanwhile the other one, which is at a different point of its tile, keeps the tensor cores busy.
struct Consumer {
    Shared &shared;
    int index, row;
    float c;                    // factor from m and s to exponents of 2
    unsigned long long q, k, v; // matrix descriptors: of Q; of K and of this half of V in stage 0
    Ring<STAGES> ring;          // position of the first K/V tile of the Q tile
    float s[BLOCK_N / 2], o[OUTPUT_COLUMNS / 2];
    unsigned weights[BLOCK_N / 16][4]; // P of an own tile
    float top[2], row_sum[2];          // m including an own tile; this thread's share of the row sums of that tile
    float max[2], sum[2];              // m; this thread's share of l over its own tiles

    __device__ __forceinline__ Consumer(Shared &shared, int index, float c)
        : shared(shared), index(index), row(warp_index() % 4 * 16 + static_cast<int>(threadIdx.x) % 32 / 4), c(c),
          q(matrix_descriptor(shared.q, 0)), k(matrix_descriptor(shared.k[0], 0)),
          v(matrix_descriptor(shared.k[0][OUTPUT_PANELS * index], BLOCK_N * 128)), ring{0} {}

    // Computes O (64, HEAD_DIM_V), m and l over the block's K/V tiles. On return they are final, and l is in shared memory.
    __device__ __forceinline__ void multiply(const attention_params &p, const KeyWalk &walk, const Tile &tile) {
        load_queries(p, tile, shared.q);
#pragma unroll
        for (float &x : o)
            x = 0;
        max[0] = max[1] = -INFINITY;
        sum[0] = sum[1] = 0;
        const int tiles = ::max(0, walk.end - walk.tile), keys = walk.keys - walk.tile * BLOCK_N;
        if (index == 0)
            multiply_even(tiles, keys);
        else
            multiply_odd(tiles, keys);
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

    // Warpgroup 0: S and P of tiles 0, 2, ...
    __device__ __forceinline__ void multiply_even(int tiles, int keys) {
#pragma unroll 1
        for (int i = 0; i < tiles; i += 2) {
            start_scores(i, keys - i * BLOCK_N);
            wgmma_wait<0>();
            weigh(i, keys - i * BLOCK_N);
            add_own(i);
            if (i + 1 < tiles) {
                start_other(i + 1);
                finish_other(i + 1);
            }
        }
    }

    // Warpgroup 1: S and P of tiles 1, 3, ... O += P V of the previous tile is computed during the softmax.
    __device__ __forceinline__ void multiply_odd(int tiles, int keys) {
#pragma unroll 1
        for (int i = 1; i < tiles; i += 2) {
            start_scores(i, keys - i * BLOCK_N);
            start_other(i - 1);
            wgmma_wait<1>();
            weigh(i, keys - i * BLOCK_N);
            finish_other(i - 1);
            add_own(i);
        }
        if (tiles % 2 == 1) {
            start_other(tiles - 1);
            finish_other(tiles - 1);
        }
    }

    // Issues S (64, 64) = Q K^T of an own tile, panel by panel as they arrive. keys: number of keys from the tile's first key on.
    __device__ __forceinline__ void start_scores(int i, int keys) {
        const int stage = (ring + i).stage(), parity = (ring + i).parity();
        if (keys < BLOCK_N) {
#pragma unroll 1
            for (int panel = 0; panel < PANELS; panel++)
                barrier_wait(&shared.full[stage][panel], parity);
            clear_rows(shared.k[stage], keys);
        }
#pragma unroll
        for (int step = 0; step < PANELS; step++) {
            const int panel = panel_of_step(step, index);
            barrier_wait(&shared.full[stage][panel], parity);
            wgmma_fence(); // after a wait, the compiler needs one
            const unsigned long long of_q = q + panel * (BLOCK_M * 128 / 16);
            const unsigned long long of_k = k + stage * (K_BYTES / 16) + panel * (BLOCK_N * 128 / 16);
            if (step == 0)
                wgmma_panel_ss_nt<BLOCK_N, false, BFLOAT16>(s, of_q, of_k);
            else
                wgmma_panel_ss_nt<BLOCK_N, true, BFLOAT16>(s, of_q, of_k);
        }
        wgmma_commit();
    }

    // Computes P of an own tile, and m. S is complete.
    __device__ __forceinline__ void weigh(int i, int keys) {
        wgmma_settle(s);
        if (keys < BLOCK_N)
            mask_columns(keys);
        top[0] = max[0], top[1] = max[1];
#pragma unroll
        for (int j = 0; j < BLOCK_N / 2; j++)
            top[j / 2 % 2] = fmaxf(top[j / 2 % 2], s[j]);
#pragma unroll
        for (int r = 0; r < 2; r++) {
            top[r] = fmaxf(top[r], __shfl_xor_sync(0xffffffffu, top[r], 1));
            top[r] = fmaxf(top[r], __shfl_xor_sync(0xffffffffu, top[r], 2));
            if ((top[r] - max[r]) * c <= 8)
                top[r] = max[r]; // weights may grow to 2^8, since raising m means rescaling O
            if (threadIdx.x % 4 == 0)
                shared.max[index][row + 8 * r] = top[r];
        }
        row_sum[0] = row_sum[1] = 0;
#pragma unroll
        for (int j = 0; j < BLOCK_N / 2; j++)
            row_sum[j / 2 % 2] += s[j] = weight_of(s[j], top[j / 2 % 2], c);
#pragma unroll
        for (int j = 0; j < BLOCK_N / 4; j++)
            weights[j / 4][j % 4] = pack<BFLOAT16>(s[2 * j], s[2 * j + 1]);
        publish_weights(shared.k[(ring + i).stage()][PANELS - 1]);
    }

    // O (64, half) += P V of an own tile. O of the previous tiles is complete.
    __device__ __forceinline__ void add_own(int i) {
        raise_max(top);
        sum[0] += row_sum[0], sum[1] += row_sum[1];
        wgmma_fence();
        wgmma_rs_nn<OUTPUT_COLUMNS, P_STEPS, BFLOAT16>(o, weights, v + (ring + i).stage() * (K_BYTES / 16));
        wgmma_commit();
        wgmma_wait<0>();
        wgmma_settle(o);
        release(&shared.empty[(ring + i).stage()][index]);
    }

    // start_other and finish_other compute O += P V of a tile whose P the other warpgroup publishes: by then the whole tile has
    // arrived. O of the previous tiles is complete.
    __device__ __forceinline__ void start_other(int i) {
        const int stage = (ring + i).stage();
        named_barrier_sync(2 - index, 256);
        const float of_other[2] = {shared.max[1 - index][row], shared.max[1 - index][row + 8]};
        raise_max(of_other);
        wgmma_fence();
        wgmma_ss_nn<OUTPUT_COLUMNS, P_STEPS, BFLOAT16>(o, matrix_descriptor(shared.k[stage][PANELS - 1], 0),
                                                       v + stage * (K_BYTES / 16));
        wgmma_commit();
    }
    __device__ __forceinline__ void finish_other(int i) {
        wgmma_wait<0>();
        wgmma_settle(o);
        release(&shared.empty[(ring + i).stage()][index]);
    }

    // Publishes P (64, 64), with m, to the other warpgroup.
    __device__ __forceinline__ void publish_weights(unsigned short (&to)[BLOCK_N][64]) {
        const int line = warp_index() % 4 * 16 + threadIdx.x % 16;
#pragma unroll
        for (int step = 0; step < P_STEPS; step++)
            store_matrices(&to[line][((2 * step + threadIdx.x % 32 / 16) ^ line % 8) * 8], weights[step][0], weights[step][1],
                           weights[step][2], weights[step][3]);
        fence_async();
        named_barrier_arrive(1 + index, 256);
    }

    // Makes l and O relative to m' = `to`; most tiles leave m unchanged. No product other than S may be in flight.
    __device__ __forceinline__ void raise_max(const float (&to)[2]) {
        if (!__any_sync(0xffffffffu, to[0] > max[0] || to[1] > max[1]))
            return;
        wgmma_wait<0>(); // the compiler wants it before O is touched, or inserts it
        const float keep[2] = {weight_of(max[0], to[0], c), weight_of(max[1], to[1], c)};
#pragma unroll
        for (int r = 0; r < 2; r++) {
            max[r] = to[r];
            sum[r] *= keep[r];
        }
#pragma unroll
        for (int j = 0; j < OUTPUT_COLUMNS / 2; j++)
            o[j] *= keep[j / 2 % 2];
    }

    // Zeroes the rows of a tile that are not keys, or keys that the query does not see: 0 * NaN is NaN.
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
