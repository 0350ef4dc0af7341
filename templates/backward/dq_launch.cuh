//$ needs wants_dq head_reads layout head_dim block_m step_n stages chunks chunks_v threads blocks_at_once dependent_launches shared_queries
//$ launch attention_dq grid batch * heads * ((len_q + block_m - 1) / block_m) block threads shared shared_queries dependent
//$ include "backward/head_rows.cuh"
//$ include "backward/nonfinite_values.cuh"
//$ include "backward/store_rows.cuh"
//$ include "target/sm_90.cuh"

// --- dQ: queries down, keys across

struct SharedQueries {
    Rows16<BLOCK_M, CHUNKS> q;
    Rows16<BLOCK_M, CHUNKS_V> d_o;
    Rows16<STEP_N, CHUNKS> k[STAGES];
    Rows16<STEP_N, CHUNKS_V> v[STAGES];
    float lse2[BLOCK_M], dot[BLOCK_M];
};
static_assert(sizeof(SharedQueries) == SHARED_QUERIES, "as in the launch directive");
//$ include "backward/sum_over_keys.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_AT_ONCE)
    attention_dq(const __grid_constant__ attention_backward_params all) {
    SharedQueries &shared = *dynamic_shared<SharedQueries>();
    //$ if dependent_launches == 1
    grid_dependency_wait();
    launch_dependents();
    //$ end
    const QueryPlace place = place_of_queries(all.forward);
    const attention_backward_params &params = sequence_of(all, place.index / all.forward.heads);
    const attention_params &p = params.forward;
    if (place.query0 >= p.len_q) return; // only longer sequences have these queries //$ if layout == ragged
    for (int row = threadIdx.x; row < BLOCK_M; row += THREADS) {
        const int query = min(place.query0 + row, p.len_q - 1);
        shared.lse2[row] = row_lse2(p, place.index)[query];
        shared.dot[row] = row_dots(p, place.index)[query];
    }
    QuerySums sums;
    for (float &value : sums.of_head) value = 0; //$ if head_reads > 0
    //$ if wants_dq == 1
#pragma unroll 1
    for (int careful = 0; careful < 2; careful++) {
        go_over_keys(params, shared, careful, sums);
        if (!some_thread_says(has_not_finite(sums.dq), shared.k))
            break;
    }
    //$ else
    go_over_keys(params, shared, false, sums);
    //$ end
    const QueryPlace at = place_of_queries(p); //$ if wants_dq == 1 or head_reads > 0
    store_head_sums(p, sums.of_head, at.index, at.query0 / BLOCK_M); //$ if head_reads > 0
    //$ if wants_dq == 1
    const int row0 = at.query0 + at.first;
    store_rows<HEAD_DIM>(sums.dq, p.scale, params.dq, params.dq_batch_stride, params.dq_head_stride, params.dq_row_stride,
                         at.index / p.heads, at.index % p.heads, row0, p.len_q - row0);
    //$ end
}
