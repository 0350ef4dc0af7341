//$ needs algorithm head_dim_v dq_width dq_ordered rows_padded layout dependent_launches items_in_parts rows_in_order clears_loaded marks_d_o
//$ launch attention_row_statistics grid max(batch * heads * ((len_q + rows_padded - 1) / rows_padded * (rows_padded / 16)), 1) block 128 shared 0 dependent params attention_backward_params
//$ include "backward/gradients.cuh"
//$ include "fragment/reduce.cuh"
//$ include "fragment/nan.cuh" if marks_d_o
//$ include "target/sm_90.cuh"

// Two numbers per query, at the start of the workspace: D = row sum of dO * O, minus dLSE, which the derivative of the softmax subtracts
// from every dP; and LSE in base 2, +INFINITY for a query that sees no key, which makes every weight 0. Queries are padded to whole
// steps with queries that see no key.

__device__ __forceinline__ int padded_queries(const attention_params &p) {
    return (p.len_q + ROWS_PADDED - 1) / ROWS_PADDED * ROWS_PADDED;
}
//$ include "backward/statistics_packed.cuh" if layout == ragged else "backward/statistics_of_heads.cuh"
//$ include "backward/counters.cuh" if algorithm == flash_async

//$ if rows_in_order
// Returns the position of a query's numbers in these rows.
__device__ __forceinline__ int row_place(int query) { return query; }
//$ else
// Returns the position of a query's numbers in these rows. 16 queries are ordered such that an ldmatrix, which gives each row of 16 bytes
// to four lanes, gives a lane the numbers of its columns in the accumulator layout of wgmma.
__device__ __forceinline__ int row_place(int query) { return query / 16 * 16 + query % 16 / 8 * 8 + query % 2 * 4 + query % 8 / 2; }
//$ end

// Eight elements, which TMA requires to be aligned. //$ if algorithm == flash_async
// Eight elements, at any alignment.        //$ else
__device__ __forceinline__ uint4 eight_elements(const Input *from) {
    //$ if algorithm == flash_mma
    if (reinterpret_cast<unsigned long long>(from) % 16 != 0) {
        unsigned pairs[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            pairs[i] = from[2 * i] | static_cast<unsigned>(from[2 * i + 1]) << 16;
        return make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
    }
    //$ end
    return *reinterpret_cast<const uint4 *>(from);
}

//$ if marks_d_o
// D of a query whose dO has a NaN: not the NaN that D is because of another input.
constexpr int DOTS_OF_NAN = 0x7fc0d000;
__device__ __forceinline__ bool is_of_nan(float dots) { return __float_as_int(dots) == DOTS_OF_NAN; }

// True if a row of dO, of eight lanes, has a NaN. All lanes of a warp call this together.
__device__ __forceinline__ bool has_nan(const Input *d_o, bool inside) {
    unsigned nan = 0;
#pragma unroll 1
    for (int column = 8 * (static_cast<int>(threadIdx.x) % 8); inside && column < HEAD_DIM_V; column += 64) {
        const uint4 eight = eight_elements(d_o + column);
        nan |= nan_of(eight.x) | nan_of(eight.y) | nan_of(eight.z) | nan_of(eight.w);
    }
    return __ballot_sync(0xffffffffu, nan != 0) >> threadIdx.x % 32 / 8 * 8 & 0xff;
}

//$ end
//$ if clears_loaded
// What row_nan() tells of four queries.
constexpr unsigned NAN_IN_LSE = 1, NAN_IN_D_O = 2;

//$ end
constexpr unsigned CLEARING_BLOCKS = 64; // clear the counters of parts, so that the others need no division //$ if items_in_parts

// Eight lanes per row, 16 bytes at a time.
extern "C" __global__ void __launch_bounds__(128)
    attention_row_statistics(const __grid_constant__ attention_backward_params all) {
    //$ if dependent_launches == 1
    grid_dependency_wait();
    launch_dependents();
    //$ end
    //$ if algorithm == flash_async
    if (blockIdx.x == 0 && threadIdx.x < 2)
        *item_counter(all.forward, threadIdx.x) = 0;
    //$ end
    //$ if items_in_parts
    if (blockIdx.x < CLEARING_BLOCKS) {
        const unsigned counters = part_counter_count(all.forward);
        for (unsigned i = blockIdx.x * 128 + threadIdx.x; i < counters; i += min(gridDim.x, CLEARING_BLOCKS) * 128)
            part_counters(all.forward)[i] = 0;
    }
    //$ end
    const int tiles = padded_queries(all.forward) / 16;
    if (tiles == 0)
        return;
    // The last heads first: the L2 cache then holds dO of the first ones, with which the products begin.
    const int block = static_cast<int>(gridDim.x - 1 - blockIdx.x);
    const int query = block % tiles * 16 + static_cast<int>(threadIdx.x) / 8;
    const long long index = block / tiles;
    const attention_backward_params &params = sequence_of(all, static_cast<int>(index) / all.forward.heads);
    const attention_params &p = params.forward;
    if (query >= padded_queries(p)) return; //$ if layout == ragged
    const int lane = static_cast<int>(threadIdx.x) % 8;
    const bool inside = query < p.len_q;
    const HeadGradients head = gradients_at(params, index);
    const float lse = inside && lane == 0 ? head_at(p, index).lse[query] : -INFINITY;
    const Input *o = head.o + query * p.o_row_stride, *d_o = head.d_o + query * params.d_o_row_stride;
    float sum = 0;
#pragma unroll
    for (int column = 8 * lane; column < HEAD_DIM_V; column += 64) {
        if (!inside)
            break;
        const uint4 a = eight_elements(o + column), b = eight_elements(d_o + column);
        const unsigned pair[8] = {a.x, b.x, a.y, b.y, a.z, b.z, a.w, b.w};
#pragma unroll
        for (int i = 0; i < 8; i += 2) {
            sum = fmaf(to_float(static_cast<Input>(pair[i])), to_float(static_cast<Input>(pair[i + 1])), sum);
            sum = fmaf(to_float(static_cast<Input>(pair[i] >> 16)), to_float(static_cast<Input>(pair[i + 1] >> 16)), sum);
        }
    }
    sum = lanes_sum<8>(sum);
    const bool of_nan = __any_sync(0xffffffffu, sum != sum) && has_nan(d_o, inside); //$ if marks_d_o
    //$ if clears_loaded
    const unsigned nan = (__any_sync(0xffffffffu, lse != lse) ? NAN_IN_LSE : 0) | (__any_sync(0xffffffffu, of_nan) ? NAN_IN_D_O : 0);
    if (threadIdx.x % 32 == 0)
        row_nan(p, index)[query / 4] = static_cast<unsigned char>(nan);
    if (threadIdx.x % 32 == 0 && nan != 0)
        atomicExch(nan_found(all.forward), NAN_FOUND);
    //$ end
    if (lane == 0) {
        row_dots(p, index)[row_place(query)] = inside && head.d_lse ? sum - head.d_lse[query] : sum;
        if (of_nan) row_dots(p, index)[row_place(query)] = __int_as_float(DOTS_OF_NAN); //$ if marks_d_o
        row_lse2(p, index)[row_place(query)] = lse == -INFINITY ? INFINITY : lse * 1.44269504f;
        *key_tiles_added(p, 64ll * tile_of_query(p, index, query) + query % 64) = 0; //$ if dq_ordered
    }
    //$ if dq_width > 0 and not dq_ordered
    float *const sums = dq_sums(p, tile_of_query(p, index, 0)) + static_cast<long long>(query) * DQ_WIDTH;
#pragma unroll
    for (int column = 4 * lane; column < DQ_WIDTH; column += 32)
        *reinterpret_cast<float4 *>(sums + column) = make_float4(0, 0, 0, 0);
    //$ end
}
