//$ needs consumers head_dim dq_columns dq_in_turn dq_staged step_m panels dq_ordered
//$ include "backward/part_of_dq.cuh"
//$ include "target/sm_90_sums.cuh" if not dq_staged and not dq_ordered else "backward/add_or_store.cuh" if not dq_staged

// A consumer's part of dQ = dS K: all columns of every second step, so that the consumers take turns. //$ if dq_in_turn
// A consumer's part of dQ = dS K: the columns from index * DQ_COLUMNS on, of the 64 queries of a step. //$ else

//$ if dq_in_turn
constexpr int D_S_READERS = 1;          // consumers that read a tile of dS
constexpr int DQ_LATE = 0;              // number of steps by which dQ is multiplied late
constexpr int TO_NEXT_PANEL = 64 * 128; // bytes of a panel of K
//$ else
constexpr int D_S_READERS = CONSUMERS; // consumers that read a tile of dS //$ if not dq_staged
constexpr int DQ_LATE = 1;             // number of steps by which dQ is multiplied late //$ if not dq_staged
constexpr int TO_NEXT_PANEL = 0;       // not read: the columns are within a panel
//$ end
__device__ __forceinline__ int first_column(int) { return 0; }                      //$ if dq_in_turn
__device__ __forceinline__ int first_column(int index) { return index * DQ_COLUMNS; } //$ else

// Issues dq (64 queries, DQ_COLUMNS) = dS K over the keys of all consumers.
__device__ __forceinline__ void multiply_part_of_dq(float (&dq)[DQ_COLUMNS / 2], Panels<STEP_M / 64, 64> (&d_s)[CONSUMERS],
                                                     Panels<PANELS, 64> (&k)[CONSUMERS], int index) {
    const int column = first_column(index);
    multiply_keys(
        dq, [&](int i) { return matrix_descriptor(d_s[i], 0); },
        [&](int i) { return matrix_descriptor(&k[i][column / 64][0][column % 64], TO_NEXT_PANEL); });
}

//$ if dq_staged
//$ include "backward/send_dq.cuh"
//$ else
// Adds the part to the sums of the step's queries, or stores it if it is the first. //$ if dq_ordered
// Adds the part to the sums of the step's queries.                                  //$ else
__device__ __forceinline__ void send_part_of_dq(const float (&dq)[DQ_COLUMNS / 2], const attention_params &p, int index,
                                                int sums, bool first) { //$ if dq_ordered
                                                int sums) {             //$ else
    float *const to = dq_sums(p, sums) + opaque(static_cast<int>(threadIdx.x) % 128) * 4;
    const int column = first_column(index);
#pragma unroll
    for (int i = 0; i < DQ_COLUMNS / 8; i++)
        if (CONSUMERS * DQ_COLUMNS == HEAD_DIM || column + 8 * i < HEAD_DIM)
            add_or_store(to + (column / 8 + i) * 512, first, dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]); //$ if dq_ordered
            add_to_memory(to + (column / 8 + i) * 512, dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]);       //$ else
}
//$ end
