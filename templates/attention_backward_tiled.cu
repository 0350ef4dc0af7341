// The gradients of attention, tile by tile: P and dS of a tile are recomputed from Q, K, V, dO and LSE, used, and discarded. Each
// kernel keeps the gradients that it sums, so no two blocks add to the same element:
//
//     attention_dk_dv   a block keeps BLOCK_N keys and walks over the queries of all heads that share them //$ if wants_dk == 1 or wants_dv == 1
//     attention_dq      a block keeps BLOCK_M queries and walks over the keys                              //$ if wants_dq == 1 or wants_d_params > 0
//
// for each tile of the other side
//     S = scale Q K^T,  dP = dO V^T              (BLOCK_M, BLOCK_N), in registers
//     P = e^(f(S) - LSE),  dS = P * (dP - D) * f'(S)
//     dV += P^T dO,  dK += dS^T Q    or    dQ += dS K
//
// The threads form a grid of THREADS_M x THREADS_N over each product; thread (y, x) owns elements (y + i THREADS_M, x + j THREADS_N).
//$ require max(head_dim, head_dim_v) <= 256
//$ defaults "attention_backward_tiled.yaml"
//$ tune target in [any, sm_80]
//$ tune block_m in [16, 32, 64]
//$ tune block_n in [16, 32, 64]
//$ tune threads in [128, 256]
//$ let threads_n = 16
//$ let threads_m = threads / threads_n
//$ require threads % 32 == 0
//$ require block_m % threads_m == 0
//$ require block_n % threads_m == 0
//$ require block_n % threads_n == 0
//$ let columns = (head_dim + threads_n - 1) / threads_n * threads_n
//$ let columns_v = (head_dim_v + threads_n - 1) / threads_n * threads_n
//$ require block_m * columns <= 64 * threads
//$ require block_n * (columns + columns_v) <= 96 * threads
//$ require block_m * block_n <= 32 * threads
//$ let shared_tiles = 4 * (block_m + block_n) * (columns + columns_v + 2)
//$ let shared_bytes = shared_tiles + 4 * block_m * (block_n + 1) if wants_dq + wants_dk + wants_dv > 0 else shared_tiles
//$ note Per-sequence lengths: a block works on one sequence.
//$ include "backward/$layout.cuh"
//$ include "expression/tables_launch.cuh" if mask_tables > 0
//$ include "backward/row_dots_launch.cuh"
//$ let row_statistics = false
//$ include "backward/d_sinks_launch.cuh" if wants_d_sinks == 1
//$ let head_sums = head_reads
//$ let head_part_rows = block_m
//$ include "backward/clear_d_params_launch.cuh" if wants_d_params > 0
//$ include "backward/head_sums.cuh" if wants_d_params > 0 and head_reads > 0
//$ include "backward/d_params.cuh" if wants_d_params > 0
//$ launch attention_dk_dv grid batch * kv_heads * ((len_kv + block_n - 1) / block_n) block threads shared shared_bytes if wants_dk == 1 or wants_dv == 1
//$ launch attention_dq grid batch * heads * ((len_q + block_m - 1) / block_m) block threads shared shared_bytes if wants_dq == 1 or wants_d_params > 0
//$ include "backward/head_d_params_launch.cuh" if wants_d_params > 0 and head_reads > 0
//$ workspace 4 * batch * heads * (len_q + head_sums * (threads / 32) * ((len_q + block_m - 1) / block_m)) if head_sums > 0 else 4 * batch * heads * len_q
//$ include "backward/gradients.cuh"
//$ include "backward/pair.cuh"

// Rows are padded by one float, so that threads that walk down a column are in different banks.
struct Shared {
    float q[BLOCK_M][COLUMNS + 1], d_o[BLOCK_M][COLUMNS_V + 1];
    float k[BLOCK_N][COLUMNS + 1], v[BLOCK_N][COLUMNS_V + 1];
    float pairs[BLOCK_M][BLOCK_N + 1]; // P, then dS //$ if wants_dq + wants_dk + wants_dv > 0
};
static_assert(sizeof(Shared) == SHARED_BYTES, "as in the launch directive");
//$ include "backward/simt_pairs.cuh"

//$ if wants_dk == 1 or wants_dv == 1
// dK and dV of BLOCK_N keys.
extern "C" __global__ void __launch_bounds__(THREADS)
    attention_dk_dv(const __grid_constant__ attention_backward_params all) {
    Shared &tile = *dynamic_shared<Shared>();
    const int tiles = (all.forward.len_kv + BLOCK_N - 1) / BLOCK_N, group = all.forward.heads / all.forward.kv_heads;
    const int key0 = static_cast<int>(blockIdx.x % tiles) * BLOCK_N;
    const long long first = blockIdx.x / tiles * group; // batch * heads + first head of the group that shares the keys
    const attention_backward_params &params = sequence_of(all, static_cast<int>(first / all.forward.heads));
    const attention_params &p = params.forward;
    if (key0 >= p.len_kv) return; // only longer sequences have these keys //$ if layout != dense
    const int thread = threadIdx.x, y = thread / THREADS_N, x = thread % THREADS_N;
    const Head keys = head_at(p, first);
    load_rows<HEAD_DIM>(tile.k, keys.k, p.k_row_stride, key0, p.len_kv);
    load_rows<HEAD_DIM_V>(tile.v, keys.v, p.v_row_stride, key0, p.len_kv);

    constexpr int ROWS = BLOCK_N / THREADS_M;
    float dk[ROWS][COLUMNS / THREADS_N] = {}; //$ if wants_dk == 1
    float dv[ROWS][COLUMNS_V / THREADS_N] = {}; //$ if wants_dv == 1
    for (long long index = first; index < first + group; index++) {
        const Where at = where_is(p, index);
        const Head head = head_at(p, index);
        const Input *d_o = gradients_at(params, index).d_o;
        for (int query0 = 0; query0 < p.len_q; query0 += BLOCK_M) {
            const TileOfPairs of = {query0, key0};
            if (!is_needed(p, at, of))
                continue;
            __syncthreads(); // all threads have used the previous queries
            load_rows<HEAD_DIM>(tile.q, head.q, p.q_row_stride, query0, p.len_q);
            load_rows<HEAD_DIM_V>(tile.d_o, d_o, params.d_o_row_stride, query0, p.len_q);
            __syncthreads();
            PairGradient pair[PER_M][PER_N];
            form_pairs(pair, p, at, tile, of, head.lse, row_dots(p, index));
            //$ if wants_dv == 1
            share_pairs(tile, pair, &PairGradient::weight, y, x);
            __syncthreads();
            add_rows_of_keys(dv, tile.pairs, tile.d_o, y, x);
            //$ end
            __syncthreads(); // all threads have used P //$ if wants_dk == 1 and wants_dv == 1
            //$ if wants_dk == 1
            share_pairs(tile, pair, &PairGradient::d_s, y, x);
            __syncthreads();
            add_rows_of_keys(dk, tile.pairs, tile.q, y, x);
            //$ end
        }
    }

    const HeadGradients gradients = gradients_at(params, first);
    store_sums<HEAD_DIM>(gradients.dk, params.dk_row_stride, key0, p.len_kv, dk, p.scale, y, x); //$ if wants_dk == 1
    store_sums<HEAD_DIM_V>(gradients.dv, params.dv_row_stride, key0, p.len_kv, dv, 1, y, x);     //$ if wants_dv == 1
}

//$ end
//$ if wants_dq == 1 or wants_d_params > 0
// Computes what BLOCK_M queries add to the gradients of the parameters that the score reads. //$ if wants_d_params > 0
// Computes dQ of BLOCK_M queries. //$ if wants_dq == 1
extern "C" __global__ void __launch_bounds__(THREADS)
    attention_dq(const __grid_constant__ attention_backward_params all) {
    Shared &tile = *dynamic_shared<Shared>();
    const int tiles = (all.forward.len_q + BLOCK_M - 1) / BLOCK_M;
    const int query0 = static_cast<int>(blockIdx.x % tiles) * BLOCK_M;
    const long long index = blockIdx.x / tiles;
    const attention_backward_params &params = sequence_of(all, static_cast<int>(index / all.forward.heads));
    const attention_params &p = params.forward;
    if (query0 >= p.len_q) return; // only longer sequences have these queries //$ if layout == ragged
    const int thread = threadIdx.x, y = thread / THREADS_N, x = thread % THREADS_N;
    const Where at = where_is(p, index);
    const Head head = head_at(p, index);
    const HeadGradients gradients = gradients_at(params, index);
    load_rows<HEAD_DIM>(tile.q, head.q, p.q_row_stride, query0, p.len_q);
    load_rows<HEAD_DIM_V>(tile.d_o, gradients.d_o, params.d_o_row_stride, query0, p.len_q);

    float dq[PER_M][COLUMNS / THREADS_N] = {}; //$ if wants_dq == 1
    float sum[HEAD_SUMS] = {}; //$ if head_reads > 0
    for (int key0 = 0; key0 < p.len_kv; key0 += BLOCK_N) {
        const TileOfPairs of = {query0, key0};
        if (!is_needed(p, at, of))
            continue;
        __syncthreads(); // all threads have used the previous keys
        load_rows<HEAD_DIM>(tile.k, head.k, p.k_row_stride, key0, p.len_kv);
        load_rows<HEAD_DIM_V>(tile.v, head.v, p.v_row_stride, key0, p.len_kv);
        __syncthreads();
        PairGradient pair[PER_M][PER_N];
        form_pairs(pair, p, at, tile, of, head.lse, row_dots(p, index));
        //$ if wants_d_params > 0
#pragma unroll
        for (int i = 0; i < PER_M; i++)
#pragma unroll
            for (int j = 0; j < PER_N; j++) {
                const int q = position_of(p, query0 + y + i * THREADS_M), key = key0 + x + j * THREADS_N;
                if (pair[i][j].d_score == 0) continue; // the pair may not exist
                add_pair(params, p, at, q, key, pair[i][j].s, pair[i][j].d_score, sum); //$ if head_reads > 0
                add_pair(params, p, at, q, key, pair[i][j].s, pair[i][j].d_score);      //$ else
            }
        //$ end
        //$ if wants_dq == 1
        share_pairs(tile, pair, &PairGradient::d_s, y, x);
        __syncthreads();
        add_rows_of_queries(dq, tile.pairs, tile.k, y, x);
        //$ end
    }

    store_head_sums(p, sum, index, query0 / BLOCK_M); //$ if head_reads > 0
    store_sums<HEAD_DIM>(gradients.dq, params.dq_row_stride, query0, p.len_q, dq, p.scale, y, x); //$ if wants_dq == 1
}
//$ end
