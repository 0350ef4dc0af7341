//$ needs dq_ordered clears_loaded marks_d_o vector_sums head_dim dq_width layout dependent_launches
//$ launch attention_round_dq grid batch * heads * ((len_q + 63) / 64) block 128 shared 0 dependent params attention_backward_params
//$ include "backward/row_statistics_launch.cuh"
//$ include "backward/other_tiles.cuh" if dq_ordered
//$ include "backward/repeat_queries.cuh"
//$ include "backward/restore_nan.cuh" if marks_d_o
//$ include "backward/store_rows.cuh"
//$ include "target/sm_90.cuh"

// Multiplies the sums of 64 queries by the scale and stores them as dQ.
extern "C" __global__ void __launch_bounds__(128)
    attention_round_dq(const __grid_constant__ attention_backward_params all) {
    //$ if dependent_launches == 1
    grid_dependency_wait();
    launch_dependents();
    //$ end
    if (blockIdx.x == 0 && threadIdx.x == 0) *nan_found(all.forward) = 0; //$ if clears_loaded
    // The last heads first: their sums are in the L2 cache still.
    const int tiles = (all.forward.len_q + 63) / 64, block = static_cast<int>(gridDim.x - 1 - blockIdx.x), index = block / tiles;
    const int tile0 = block % tiles * 64, query0 = tile0 + static_cast<int>(threadIdx.x) / 32 * 16; // of this warp
    const attention_backward_params &params = sequence_of(all, index / all.forward.heads);
    const attention_params &p = params.forward;
    if (tile0 >= p.len_q) return; //$ if layout == ragged
    const float *const sums = dq_sums(p, tile_of_query(p, index, tile0));
    float dq[1][DQ_WIDTH / 2];
#pragma unroll
    for (int i = 0; i < DQ_WIDTH / 8; i++) {
        //$ if vector_sums
        const float4 four = reinterpret_cast<const float4 *>(sums)[128 * i + threadIdx.x];
        dq[0][4 * i] = four.x, dq[0][4 * i + 1] = four.y, dq[0][4 * i + 2] = four.z, dq[0][4 * i + 3] = four.w;
        //$ else
#pragma unroll
        for (int e = 0; e < 4; e++)
            dq[0][4 * i + e] = sums[512 * i + 128 * e + threadIdx.x];
        //$ end
    }
    //$ if dq_ordered
    if (p.len_kv == 0 || tile0 < first_query(p, 0)) // these queries see no key, so nothing was stored
        for (float &value : dq[0])
            value = 0;
    //$ end
    const bool again = wants_repeat(dq[0]) && query0 < p.len_q;
    store_rows<HEAD_DIM>(dq, p.scale, params.dq, params.dq_batch_stride, params.dq_head_stride, params.dq_row_stride,
                         index / p.heads, index % p.heads, query0, p.len_q - query0);
    if (again)
        repeat_dq(params, index, query0, nonfinite_sums(dq[0], p.len_q - query0));
    if (again) restore_nan(params, index, query0); //$ if marks_d_o
}
