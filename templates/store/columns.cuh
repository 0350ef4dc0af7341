//$ needs head_dim_v
//$ include "work/run.cuh"

// Stores one element of O, already divided by l.
__device__ __forceinline__ void store_element(const attention_params &p, int batch, const Row &at, int column, float x) {
    if (at.query < p.len_q && column < HEAD_DIM_V)
        static_cast<Output *>(p.o)[batch * p.o_batch_stride + at.head * p.o_head_stride + at.query * p.o_row_stride + column] =
            to_output(x);
}

// Stores the LSE of a row, unless lse is null.
__device__ __forceinline__ void store_lse(const attention_params &p, int batch, const Row &at, float max, float sum) {
    if (p.lse && at.query < p.len_q)
        p.lse[batch * p.lse_batch_stride + at.head * p.lse_head_stride + at.query] = lse_of(p, max, sum);
}

// Returns the factor that divides O by l. O of a row that saw no key stays 0.
__device__ __forceinline__ float inverse_of(float sum) { return sum == 0 ? 1 : reciprocal_approx(sum); }
