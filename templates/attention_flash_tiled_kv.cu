// Tiled attention with the loop over keys outside: a tile of block_n keys and values stays on chip while the inner loop goes over
// all Q tiles. Between two K/V tiles the unfinished output and the softmax state of each query are kept in global memory (the
// workspace, fp32). The last step divides O by l.
//
//     for each K/V tile                      K, V: global -> shared, once
//         for each Q tile               Q, o, m, l: global -> registers, o, m, l back again
//
// One block computes one head, so that no two blocks share an output row and the order of additions is fixed. LANES lanes hold a
// row of Q and of O. The other loop order computes the same sums: it reads K and V once for each Q tile, but keeps O in registers,
// which is less traffic in total, and has as many independent blocks as there are Q tiles.
//$ require dropout == 0
//$ let lanes = 8 if head_dim + head_dim_v <= 256 else 16
//$ defaults "attention_flash_tiled_kv.yaml"
//$ tune block_m in [4, 8, 16, 32, 64]
//$ tune block_n in [8, 16, 32, 64, 128]
//$ require block_m * lanes % 32 == 0
//$ require block_m * lanes <= 1024
//$ require block_n % lanes == 0
//$ let block_threads = block_m * lanes
//$ let pitch = head_dim / 2 * 2 + 1
//$ let shared_bytes = 4 * ((block_m + block_n) * pitch + block_n * head_dim_v + block_m * (block_n + 1))
//$ include "expression/tables_launch.cuh" if mask_tables > 0
//$ launch attention_flash_tiled_kv grid batch * heads block block_threads shared shared_bytes
//$ workspace 4 * batch * heads * len_q * (head_dim_v + 2)
//$ include "sequence/head.cuh"
//$ require layout == dense
//$ include "expression/formula.cuh" if mask == custom_mask or score == custom_score or sinks > 0
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

// The work of a block: one head.
struct Work {
    Head head;
    Where where; //$ if mask == custom_mask or score == custom_score or sinks > 0
    SoftmaxState *states; // (len_q), in the workspace
    float *outputs;       // (len_q, head_dim_v), in the workspace after the states of all heads; not yet divided by l
};

__device__ __forceinline__ Work work_of_block(const attention_params &p) {
    const long long rows = static_cast<long long>(gridDim.x) * p.len_q, row0 = static_cast<long long>(blockIdx.x) * p.len_q;
    Work work;
    work.head = head_at(p, blockIdx.x);
    work.where = where_is(p, blockIdx.x); //$ if mask == custom_mask or score == custom_score or sinks > 0
    work.states = static_cast<SoftmaxState *>(p.workspace) + row0;
    work.outputs = static_cast<float *>(p.workspace) + rows * 2 + row0 * HEAD_DIM_V;
    return work;
}

__device__ __forceinline__ float *output_of(const Work &work, int query) {
    return work.outputs + static_cast<long long>(query) * HEAD_DIM_V;
}

// O = 0, m = -inf, l = 0
__device__ __forceinline__ void begin_rows(const attention_params &p, const Work &work, int row, int lane) {
    const SoftmaxState state = softmax_of(tensor_sinks(p, work.where.h)); // a sink has weight and no value //$ if sinks > 0
    const SoftmaxState state = softmax_of_nothing();                                                        //$ else
    for (int query = row; query < p.len_q; query += BLOCK_M) {
        slice_store_float(output_of(work, query), slice_zero<HEAD_DIM_V>());
        if (lane == 0)
            work.states[query] = state;
    }
}

//$ include "walk/q_tiles_custom.cuh" if mask == custom_mask else "walk/q_tiles_builtin.cuh"

// Loads K and V of a tile, as fp32.
__device__ __forceinline__ void load_keys(const attention_params &p, const Head &head, int key0, Shared &tile) {
    for (int i = threadIdx.x; i < BLOCK_N * HEAD_DIM; i += BLOCK_THREADS)
        if (key0 + i / HEAD_DIM < p.len_kv)
            tile.k[i / HEAD_DIM][i % HEAD_DIM] = to_float(head.k[(key0 + i / HEAD_DIM) * p.k_row_stride + i % HEAD_DIM]);
    for (int i = threadIdx.x; i < BLOCK_N * HEAD_DIM_V; i += BLOCK_THREADS)
        if (key0 + i / HEAD_DIM_V < p.len_kv)
            tile.v[i / HEAD_DIM_V][i % HEAD_DIM_V] =
                to_float(head.v[(key0 + i / HEAD_DIM_V) * p.v_row_stride + i % HEAD_DIM_V]);
}

// s = scale q.k for keys lane, lane + LANES, ... of the tile; -INFINITY for unseen keys. Returns the maximum of s.
__device__ __forceinline__ float multiply_scores(const attention_params &p, const Work &work, const Shared &tile, int query,
                                                 int key0, int keys, float (&s)[BLOCK_N / LANES]) {
    const int row = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    float max = -INFINITY;
#pragma unroll
    for (int j = 0; j < BLOCK_N / LANES; j++) {
        const int key = lane + j * LANES;
        const bool seen = key < keys && sees_key(p, work, query, key0 + key); //$ if mask == custom_mask
        const bool seen = key < keys;                                         //$ else
        float dot = 0;
        for (int d = 0; seen && d < HEAD_DIM; d++)
            dot = fmaf(tile.q[row][d], tile.k[key][d], dot);
        s[j] = seen ? score_of(p, work.where, position_of(p, query), key0 + key, p.scale * dot) : -INFINITY; //$ if score == custom_score
        s[j] = seen ? p.scale * dot : -INFINITY;                                                             //$ else
        max = fmaxf(max, s[j]);
    }
    return max;
}

// Stores the weights exp(s - max) of the lane's keys in shared memory. Returns their sum.
__device__ __forceinline__ float store_weights(float (&weight)[BLOCK_N + 1], const float (&s)[BLOCK_N / LANES], float max) {
    const int lane = threadIdx.x % LANES;
    float sum = 0;
#pragma unroll
    for (int j = 0; j < BLOCK_N / LANES; j++)
        sum += weight[lane + j * LANES] = softmax_weight(s[j], max);
    return sum;
}

// o = o keep + weights V, for the lane's slice of the row.
__device__ __forceinline__ void add_output(const attention_params &p, const Work &work, const Shared &tile, int query, int key0,
                                           int keys, float keep) {
    const int row = threadIdx.x / LANES;
    float *output = output_of(work, query);
    const Slice<HEAD_DIM_V> o = slice_load_float<HEAD_DIM_V>(output);
    Slice<HEAD_DIM_V> sum = slice_zero<HEAD_DIM_V>();
    for (int key = 0; key < keys; key++) {
        if (!sees_key(p, work, query, key0 + key)) continue; // a weight of 0 is not enough: 0 times NaN is NaN //$ if mask == custom_mask
        slice_add(sum, 1, tile.weight[row][key], slice_load_float<HEAD_DIM_V>(tile.v[key]));
    }
    slice_add(sum, 1, keep, o);
    slice_store_float(output, sum);
}

// O = O / l and LSE.
__device__ __forceinline__ void store_rows(const attention_params &p, const Work &work, int row, int lane) {
    for (int query = row; query < p.len_q; query += BLOCK_M) {
        const SoftmaxState state = work.states[query];
        Slice<HEAD_DIM_V> o = slice_load_float<HEAD_DIM_V>(output_of(work, query));
        for (float &value : o.value)
            value = softmax_normalize(value, state);
        slice_store(work.head.o + query * p.o_row_stride, o);
        if (work.head.lse && lane == 0)
            work.head.lse[query] = softmax_lse(state);
    }
}

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS)
    attention_flash_tiled_kv(const __grid_constant__ attention_params p) {
    Shared &tile = *dynamic_shared<Shared>();
    const Work work = work_of_block(p);
    const int row = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    begin_rows(p, work, row, lane);

    for (int key0 = 0; key0 < p.len_kv; key0 += BLOCK_N) {
        if (!some_sees_tile(p, work, key0)) continue; //$ if mask == custom_mask
        __syncthreads(); // all threads have finished with the previous K/V tile and with all states
        load_keys(p, work.head, key0, tile);
        __syncthreads();

        for (int query0 = 0; query0 < p.len_q; query0 += BLOCK_M) {
            if (!sees_tile(p, work, query0, key0))
                continue;
            const int query = query0 + row;
            const bool inside = query < p.len_q;
            const int keys = inside ? keys_of_row(p, query, key0) : 0;
            if (inside)
                for (int d = lane; d < HEAD_DIM; d += LANES)
                    tile.q[row][d] = to_float(work.head.q[query * p.q_row_stride + d]);
            __syncwarp();

            float s[BLOCK_N / LANES];
            const float tile_max = multiply_scores(p, work, tile, query, key0, keys, s);

            // m' = max(m, max s),  l' = l exp(m - m') + sum of weights exp(s - m')
            SoftmaxState state = inside ? work.states[query] : softmax_of_nothing();
            const float max = fmaxf(state.max, lanes_max<LANES>(tile_max)), keep = softmax_weight(state.max, max);
            const float tile_sum = store_weights(tile.weight[row], s, max);
            state = {max, state.sum * keep + lanes_sum<LANES>(tile_sum)};
            __syncwarp(); // the weights of the row are stored; its query and its state have been read

            if (!inside)
                continue;
            add_output(p, work, tile, query, key0, keys, keep);
            if (lane == 0)
                work.states[query] = state;
        }
    }
    __syncthreads(); // one lane writes a state and all lanes of its row read it
    store_rows(p, work, row, lane);
}
