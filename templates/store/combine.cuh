//$ needs head_dim_v columns_v dtype_out rows_aligned bfloat16_out layout sinks dropout dependent_launches
//$ let combine_threads = 128
//$ let combine_lanes = 32 if columns_v > 64 else 16 if columns_v > 32 else 8
//$ let combine_rows = combine_threads / combine_lanes
//$ launch attention_combine grid min(key_parts - 1, 1) * ((batch * heads * len_q + combine_rows - 1) / combine_rows) block combine_threads shared 0 dependent params attention_params
//$ include "target/sm_90.cuh"
//$ include "fragment/weight_of_score.cuh"

// The second launch, when keys are split. It combines O and LSE of each row from its parts, in their order, so that equal
// inputs give equal bits. COMBINE_LANES neighbouring lanes share a row, and each takes 4 neighbouring columns at a time.

// Stores four columns of a row of O.
__device__ __forceinline__ void store_four(Output *to, int column, float4 x) {
    *reinterpret_cast<float4 *>(to + column) = x;                                                                     //$ if rows_aligned and dtype_out == fp32
    *reinterpret_cast<uint2 *>(to + column) = make_uint2(pack<BFLOAT16_OUT>(x.x, x.y), pack<BFLOAT16_OUT>(x.z, x.w)); //$ elif rows_aligned
    //$ if not rows_aligned
    const float value[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (column + i < HEAD_DIM_V)
            to[column + i] = to_output(value[i]);
    //$ end
}

extern "C" __global__ void __launch_bounds__(COMBINE_THREADS) attention_combine(const __grid_constant__ attention_params p) {   //$ if layout == dense
extern "C" __global__ void __launch_bounds__(COMBINE_THREADS) attention_combine(const __grid_constant__ attention_params all) { //$ else
    constexpr int GROUPS = (COLUMNS_V / 4 + COMBINE_LANES - 1) / COMBINE_LANES; // groups of four columns per lane
    const int lane = static_cast<int>(threadIdx.x) % COMBINE_LANES;
    const attention_params &all = p; //$ if layout == dense
    const unsigned rows = static_cast<unsigned>(rows_of_all(all)); // more would need a workspace of a hundred gigabytes
    const unsigned row = blockIdx.x * COMBINE_ROWS + threadIdx.x / COMBINE_LANES;
    const unsigned of_all = row / rows_of_head(all), query = row - of_all * rows_of_head(all), batch = of_all / all.heads;
    const Row at = {static_cast<int>(query), static_cast<int>(of_all - batch * all.heads)};
    grid_dependency_wait(), launch_dependents(); //$ if dependent_launches == 1
    if (row >= rows)
        return;
    const attention_params p = sequence_of(all, static_cast<int>(batch)); //$ if layout != dense
    const Tile tile = tile_of_row(p, static_cast<int>(batch), at);
    //$ if layout != dense
    if (at.query >= p.len_q)
        return;
    //$ end
    const int parts = parts_of(p, tiles_of_walk(p, tile));                    //$ if layout == dense
    const int parts = p.len_kv > 0 ? parts_of(p, tiles_of_walk(p, tile)) : 0; //$ else
    const float c = exponent_factor(p);

    // Several parts at a time are in flight before any of them is needed, since there are few rows for many SMs.
    constexpr int AHEAD = 8 / GROUPS;
    float max = -INFINITY, sum = 0, o[GROUPS][4] = {};
#pragma unroll 1
    for (int first = 0; first < parts; first += AHEAD) {
        float2 state[AHEAD]; // m and l
        float4 x[AHEAD][GROUPS] = {};
        float top = max;
#pragma unroll
        for (int j = 0; j < AHEAD; j++) {
            const bool there = first + j < parts;
            state[j] = there ? *state_of_part(p, first + j, row) : make_float2(-INFINITY, 0);
            const float *from = output_of_part(p, first + j, row);
#pragma unroll
            for (int i = 0; i < GROUPS; i++) {
                const int column = (i * COMBINE_LANES + lane) * 4;
                if (there && column < COLUMNS_V)
                    x[j][i] = *reinterpret_cast<const float4 *>(from + column);
            }
            top = fmaxf(top, state[j].x);
        }
        const float keep = exp2_approx((max - finite_max(top)) * c);
        max = top, sum *= keep;
#pragma unroll
        for (int i = 0; i < GROUPS; i++)
            for (float &value : o[i])
                value *= keep;
#pragma unroll
        for (int j = 0; j < AHEAD; j++) {
            const float weight = exp2_approx((state[j].x - finite_max(top)) * c);
            sum = fmaf(weight, state[j].y, sum);
#pragma unroll
            for (int i = 0; i < GROUPS; i++) {
                o[i][0] = fmaf(weight, x[j][i].x, o[i][0]), o[i][1] = fmaf(weight, x[j][i].y, o[i][1]);
                o[i][2] = fmaf(weight, x[j][i].z, o[i][2]), o[i][3] = fmaf(weight, x[j][i].w, o[i][3]);
            }
        }
    }
    //$ if layout != dense and sinks > 0
    if (parts == 0)
        max = sink_of(p, at.head), sum = 1;
    //$ end
    const float inverse = sum == 0 ? 1 : p.dropout_factor * reciprocal_approx(sum); // a row that saw no key stays 0 //$ if dropout == 1
    const float inverse = sum == 0 ? 1 : reciprocal_approx(sum);                    // a row that saw no key stays 0 //$ else
    Output *to = static_cast<Output *>(p.o) + batch * p.o_batch_stride + at.head * p.o_head_stride + at.query * p.o_row_stride;
#pragma unroll
    for (int i = 0; i < GROUPS; i++) {
        const int column = (i * COMBINE_LANES + lane) * 4;
        if (column < HEAD_DIM_V)
            store_four(to, column, make_float4(o[i][0] * inverse, o[i][1] * inverse, o[i][2] * inverse, o[i][3] * inverse));
    }
    if (lane == 0)
        store_lse(Unit{p, 0, 0, tile}, at, max, sum);
}
