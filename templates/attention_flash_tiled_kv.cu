// Attention by tiles with keys outside: a tile of block_n keys and values stays on chip while all tiles of block_m
// queries pass by. No query sees all keys in one go, so its unfinished output and softmax state wait in global memory
// (the workspace, fp32) between two key tiles, and are divided by l when all keys have been seen.
//
//     for each K/V tile                      K, V: global -> shared, once
//         for each Q tile               Q, o, m, l: global -> registers, o, m, l back again
//
// One block a head, so that no two blocks share an output row and the order of additions is fixed. A row of Q and of o
// belongs to LANES lanes. Compare the other loop order, which reads K and V over again but never takes o out of
// registers: the same sums, less traffic, and as many independent blocks as there are query tiles.
//$ if head_dim + head_dim_v <= 256
//$ let lanes = 8
//$ else
//$ let lanes = 16
//$ end
//$ if head_dim + head_dim_v <= 128
//$ default block_m = 32
//$ default block_n = 64
//$ elif head_dim + head_dim_v <= 256
//$ default block_m = 16
//$ default block_n = 32
//$ else
//$ default block_m = 16
//$ default block_n = 16
//$ end
//$ tune block_m in [4, 8, 16, 32, 64]
//$ tune block_n in [8, 16, 32, 64, 128]
//$ require block_m * lanes % 32 == 0
//$ require block_m * lanes <= 1024
//$ require block_n % lanes == 0
//$ let block_threads = block_m * lanes
//$ let pitch = head_dim / 2 * 2 + 1
//$ let shared_bytes = 4 * ((block_m + block_n) * pitch + block_n * head_dim_v + block_m * (block_n + 1))
//$ if mask == custom_mask
//$ if mask_tables > 0
//$ include "expression/tables_launch.cuh"
//$ end
//$ end
//$ launch attention_flash_tiled_kv grid batch * heads block block_threads shared shared_bytes
//$ workspace 4 * batch * heads * len_q * (head_dim_v + 2)
//$ include "sequence/head.cuh"
//$ if mask == custom_mask or score == custom_score or sinks > 0
//$ include "expression/formula.cuh"
//$ end
//$ include "walk/keys_seen.cuh"
//$ include "load/slice.cuh"
//$ include "fragment/softmax.cuh"

// Odd row lengths keep lanes that read the same column of different rows in different banks.
struct Shared {
    float k[BLOCK_N][PITCH];
    float v[BLOCK_N][HEAD_DIM_V];
    float q[BLOCK_M][PITCH];
    float weight[BLOCK_M][BLOCK_N + 1];
};
static_assert(sizeof(Shared) == SHARED_BYTES, "as in the launch directive");

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS)
    attention_flash_tiled_kv(const __grid_constant__ attention_params p) {
    Shared &tile = *dynamic_shared<Shared>();
    Head head = head_at(p, blockIdx.x);
    int row = threadIdx.x / LANES, lane = threadIdx.x % LANES;

    // What waits between key tiles, for all rows of all heads: states (len_q), then outputs (len_q, head_dim_v).
    long long rows = static_cast<long long>(gridDim.x) * p.len_q, row0 = static_cast<long long>(blockIdx.x) * p.len_q;
    SoftmaxState *states = static_cast<SoftmaxState *>(p.workspace) + row0;
    float *outputs = static_cast<float *>(p.workspace) + rows * 2 + row0 * HEAD_DIM_V;

    //$ if mask == custom_mask or score == custom_score or sinks > 0
    const Where at = where_is(p, blockIdx.x);
    //$ end
    for (int query = row; query < p.len_q; query += BLOCK_M) { // o = 0, m = -inf, l = 0
        slice_store_float(outputs + static_cast<long long>(query) * HEAD_DIM_V, slice_zero<HEAD_DIM_V>());
        if (lane == 0)
            //$ if sinks > 0
            states[query] = softmax_of(tensor_sinks(p, at.h)); // takes weight, adds no value
            //$ else
            states[query] = softmax_of_nothing();
            //$ end
    }

    for (int key0 = 0; key0 < p.len_kv; key0 += BLOCK_N) {
        //$ if mask == custom_mask
        const int key1 = min(key0 + BLOCK_N, p.len_kv) - 1;
        bool needed = false; // by some Q tile
        for (int query0 = 0; !needed && query0 < p.len_q; query0 += BLOCK_M)
            needed = some_seen(p, at, position_of(p, query0), position_of(p, min(query0 + BLOCK_M, p.len_q) - 1), key0, key1);
        if (!needed)
            continue;
        //$ end
        __syncthreads(); // all are done with the last K/V tile, and with all states
        for (int i = threadIdx.x; i < BLOCK_N * HEAD_DIM; i += BLOCK_THREADS)
            if (key0 + i / HEAD_DIM < p.len_kv)
                tile.k[i / HEAD_DIM][i % HEAD_DIM] =
                    to_float(head.k[(key0 + i / HEAD_DIM) * p.k_row_stride + i % HEAD_DIM]);
        for (int i = threadIdx.x; i < BLOCK_N * HEAD_DIM_V; i += BLOCK_THREADS)
            if (key0 + i / HEAD_DIM_V < p.len_kv)
                tile.v[i / HEAD_DIM_V][i % HEAD_DIM_V] =
                    to_float(head.v[(key0 + i / HEAD_DIM_V) * p.v_row_stride + i % HEAD_DIM_V]);
        __syncthreads();

        for (int query0 = 0; query0 < p.len_q; query0 += BLOCK_M) {
            //$ if mask == causal
            if (key0 >= keys_seen(p, min(query0 + BLOCK_M, p.len_q) - 1))
                continue; // not even the last query of the tile sees the first key
            //$ elif mask == custom_mask
            if (!some_seen(p, at, position_of(p, query0), position_of(p, min(query0 + BLOCK_M, p.len_q) - 1), key0, key1))
                continue;
            //$ end
            int query = query0 + row;
            bool inside = query < p.len_q;
            //$ if mask == custom_mask
            int keys = inside ? min(p.len_kv - key0, BLOCK_N) : 0; // of this tile
            //$ else
            int keys = inside ? min(keys_seen(p, query) - key0, BLOCK_N) : 0; // of this tile, seen; may be below 0
            //$ end

            if (inside)
                for (int d = lane; d < HEAD_DIM; d += LANES)
                    tile.q[row][d] = to_float(head.q[query * p.q_row_stride + d]);
            __syncwarp();

            // s = scale q.k; a lane does keys lane, lane + LANES, ...
            float score[BLOCK_N / LANES], tile_max = -INFINITY;
#pragma unroll
            for (int j = 0; j < BLOCK_N / LANES; j++) {
                int key = lane + j * LANES;
                float dot = 0;
                //$ if mask == custom_mask
                const bool seen = key < keys && sees(p, at, position_of(p, query), key0 + key);
                //$ else
                const bool seen = key < keys;
                //$ end
                for (int d = 0; seen && d < HEAD_DIM; d++)
                    dot = fmaf(tile.q[row][d], tile.k[key][d], dot);
                //$ if score == custom_score
                score[j] = seen ? score_of(p, at, position_of(p, query), key0 + key, p.scale * dot) : -INFINITY;
                //$ else
                score[j] = seen ? p.scale * dot : -INFINITY;
                //$ end
                tile_max = fmaxf(tile_max, score[j]);
            }

            // m' = max(m, max s),  weight = exp(s - m')
            SoftmaxState state = inside ? states[query] : softmax_of_nothing();
            float max = fmaxf(state.max, lanes_max<LANES>(tile_max)), tile_sum = 0;
#pragma unroll
            for (int j = 0; j < BLOCK_N / LANES; j++) {
                float weight = softmax_weight(score[j], max);
                tile.weight[row][lane + j * LANES] = weight;
                tile_sum += weight;
            }

            // keep = exp(m - m'),  l = l keep + sum of weights
            float keep = softmax_weight(state.max, max);
            state = {max, state.sum * keep + lanes_sum<LANES>(tile_sum)};
            __syncwarp(); // weights of the row are there; its query and its state have been read

            // o = o keep + weights V; a lane does its slice of the row
            if (!inside)
                continue;
            float *output = outputs + static_cast<long long>(query) * HEAD_DIM_V;
            Slice<HEAD_DIM_V> o = slice_load_float<HEAD_DIM_V>(output), sum = slice_zero<HEAD_DIM_V>();
            for (int key = 0; key < keys; key++)
                //$ if mask == custom_mask
                if (sees(p, at, position_of(p, query), key0 + key)) // a weight of 0 would not do: 0 times NaN is NaN
                //$ end
                slice_add(sum, 1, tile.weight[row][key], slice_load_float<HEAD_DIM_V>(tile.v[key]));
            slice_add(sum, 1, keep, o);
            slice_store_float(output, sum);
            if (lane == 0)
                states[query] = state;
        }
    }

    // o = o / l; states are written by one lane and read by all
    __syncthreads();
    for (int query = row; query < p.len_q; query += BLOCK_M) {
        SoftmaxState state = states[query];
        Slice<HEAD_DIM_V> o = slice_load_float<HEAD_DIM_V>(outputs + static_cast<long long>(query) * HEAD_DIM_V);
        for (float &value : o.value)
            value = softmax_normalize(value, state);
        slice_store(head.o + query * p.o_row_stride, o);
        if (head.lse && lane == 0)
            head.lse[query] = softmax_lse(state);
    }
}
