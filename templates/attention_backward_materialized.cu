// The gradients of attention by definition, with P and dS of all (query, key) pairs in global memory:
//
//     D  = row sum of dO * O, minus dLSE
//     P  = e^(f(scale Q K^T) - LSE),  dP = dO V^T,  dS = P * (dP - D) * f'(scale Q K^T)
//     dQ = scale dS K,  dK = scale dS^T Q,  dV = P^T dO
//
// f is the score. dK and dV are summed over the query heads that share a K/V head. One thread computes each sum, in a fixed order.
//$ require layout == dense
//$ default threads = 128
//$ tune threads in [64, 128, 256]
//$ require threads % 32 == 0
//$ include "backward/dense.cuh"
//$ include "expression/tables_launch.cuh" if mask_tables > 0
//$ include "backward/row_dots_launch.cuh"
//$ let row_statistics = false
//$ include "backward/d_sinks_launch.cuh" if wants_d_sinks == 1
//$ let head_sums = head_reads
//$ let head_part_rows = 1
//$ include "backward/clear_d_params_launch.cuh" if wants_d_params > 0
//$ include "backward/head_sums.cuh" if wants_d_params > 0 and head_reads > 0
//$ include "backward/d_params.cuh" if wants_d_params > 0
//$ launch attention_pairs grid batch * heads * len_q block threads shared 0
//$ launch attention_dq grid batch * heads * len_q block threads shared 0 if wants_dq == 1
//$ launch attention_dk_dv grid batch * kv_heads * len_kv block threads shared 0 if wants_dk == 1 or wants_dv == 1
//$ include "backward/head_d_params_launch.cuh" if wants_d_params > 0 and head_reads > 0
//$ workspace 4 * batch * heads * len_q * (1 + head_sums * (threads / 32) + 2 * len_kv)
//$ include "backward/gradients.cuh"
//$ include "backward/pair.cuh"

// Return row (batch, head, query) of P and of dS: len_kv numbers each.
__device__ __forceinline__ float *weights_of(const attention_params &p, long long row) {
    const long long indices = static_cast<long long>(p.batch) * p.heads;
    return head_sums_of(p, HEAD_SUMS * indices) + row * p.len_kv; //$ if head_reads > 0
    return row_dots(p, indices) + row * p.len_kv;                 //$ else
}
__device__ __forceinline__ float *d_scores_of(const attention_params &p, long long row) {
    return weights_of(p, static_cast<long long>(p.batch) * p.heads * p.len_q + row);
}

template <int COLUMNS> __device__ __forceinline__ float row_product(const Input *a, const Input *b) {
    float sum = 0;
    for (int d = 0; d < COLUMNS; d++)
        sum = fmaf(to_float(a[d]), to_float(b[d]), sum);
    return sum;
}

// Computes P and dS of a query; one block per row, one thread per key. Keys and values that the query does not see are never read.
extern "C" __global__ void __launch_bounds__(THREADS)
    attention_pairs(const __grid_constant__ attention_backward_params params) {
    const attention_params &p = params.forward;
    const long long row = blockIdx.x, index = row / p.len_q;
    const int query = static_cast<int>(row % p.len_q);
    const Where at = where_is(p, index);
    const Head head = head_at(p, index);
    const HeadGradients gradients = gradients_at(params, index);
    const float lse = head.lse[query], dot = row_dots(p, index)[query];
    float sum[HEAD_SUMS] = {}; //$ if head_reads > 0
    for (int key = threadIdx.x; key < p.len_kv; key += THREADS)
        if (sees_pair(p, at, query, key)) {
            const float product = row_product<HEAD_DIM>(head.q + query * p.q_row_stride, head.k + key * p.k_row_stride);
            const float d_weight =
                row_product<HEAD_DIM_V>(gradients.d_o + query * params.d_o_row_stride, head.v + key * p.v_row_stride);
            const PairGradient pair = pair_gradient(p, at, query, key, p.scale * product, d_weight, lse, dot);
            weights_of(p, row)[key] = pair.weight;
            d_scores_of(p, row)[key] = pair.d_s;
            add_pair(params, p, at, position_of(p, query), key, pair.s, pair.d_score, sum); //$ if head_reads > 0
            add_pair(params, p, at, position_of(p, query), key, pair.s, pair.d_score);      //$ elif wants_d_params > 0
        }
    store_head_sums(p, sum, index, query); //$ if head_reads > 0
}

//$ if wants_dq == 1
// Computes dQ = scale dS K of a query; one block per row, one thread per column.
extern "C" __global__ void __launch_bounds__(THREADS)
    attention_dq(const __grid_constant__ attention_backward_params params) {
    const attention_params &p = params.forward;
    const long long row = blockIdx.x, index = row / p.len_q;
    const int query = static_cast<int>(row % p.len_q);
    const Where at = where_is(p, index);
    const Head head = head_at(p, index);
    const float *d_scores = d_scores_of(p, row);
    for (int d = threadIdx.x; d < HEAD_DIM; d += THREADS) {
        float sum = 0;
        for (int key = 0; key < p.len_kv; key++)
            if (sees_pair(p, at, query, key) && d_scores[key] != 0) // 0 * NaN is NaN
                sum = fmaf(d_scores[key], to_float(head.k[key * p.k_row_stride + d]), sum);
        gradients_at(params, index).dq[query * params.dq_row_stride + d] = to_output(p.scale * sum);
    }
}

//$ end
//$ if wants_dk == 1 or wants_dv == 1

// Computes dK = scale dS^T Q and dV = P^T dO of a key, over the heads that share it; one block per row, one thread per column.
extern "C" __global__ void __launch_bounds__(THREADS)
    attention_dk_dv(const __grid_constant__ attention_backward_params params) {
    const attention_params &p = params.forward;
    const int key = static_cast<int>(blockIdx.x % p.len_kv), group = p.heads / p.kv_heads;
    const long long first = blockIdx.x / p.len_kv * group; // index of the first of those heads
    constexpr int COLUMNS = HEAD_DIM > HEAD_DIM_V ? HEAD_DIM : HEAD_DIM_V;
    for (int d = threadIdx.x; d < COLUMNS; d += THREADS) {
        float d_key = 0; //$ if wants_dk == 1
        float d_value = 0; //$ if wants_dv == 1
        for (long long index = first; index < first + group; index++) {
            const Where at = where_is(p, index);
            const Head head = head_at(p, index); //$ if wants_dk == 1
            const Input *d_o = gradients_at(params, index).d_o; //$ if wants_dv == 1
            for (int query = 0; query < p.len_q; query++) {
                if (!sees_pair(p, at, query, key))
                    continue;
                const long long row = index * p.len_q + query;
                //$ if wants_dk == 1
                if (d < HEAD_DIM && d_scores_of(p, row)[key] != 0) // 0 * NaN is NaN
                    d_key = fmaf(d_scores_of(p, row)[key], to_float(head.q[query * p.q_row_stride + d]), d_key);
                //$ end
                //$ if wants_dv == 1
                if (d < HEAD_DIM_V && weights_of(p, row)[key] != 0)
                    d_value = fmaf(weights_of(p, row)[key], to_float(d_o[query * params.d_o_row_stride + d]), d_value);
                //$ end
            }
        }
        const HeadGradients gradients = gradients_at(params, first);
        if (d < HEAD_DIM) gradients.dk[key * params.dk_row_stride + d] = to_output(p.scale * d_key); //$ if wants_dk == 1
        if (d < HEAD_DIM_V) gradients.dv[key * params.dv_row_stride + d] = to_output(d_value);       //$ if wants_dv == 1
    }
}
//$ end
