// The gradients of attention, tile by tile, on the tensor cores of every GPU from compute capability 8.0 on. P and dS of a tile are
// recomputed from Q, K, V, dO and LSE.
//$ include "attention_backward_mma.cuh"
//$ if dq_added
// A block keeps BLOCK_N keys and loops over the queries of all heads that share them, STEP_M at a time:
//
//               S^T = K Q^T,  dP^T = V dO^T,  dV += P^T dO,  dK += dS^T Q,  dQ += dS K
//
// dQ is added in fp32 to sums in the workspace, which the last launch rounds.
//$ else
// Some blocks own keys and others queries, so that no sum crosses blocks:
//
//     dK, dV    a block keeps BLOCK_N keys and loops over the queries of all heads that share them, STEP_M at a time
//               S^T = K Q^T,  dP^T = V dO^T,  dV += P^T dO,  dK += dS^T Q
//     dQ        a block keeps BLOCK_M queries and loops over the keys, STEP_N at a time
//               S = Q K^T,  dP = dO V^T,  dQ += dS K
//
// Each warp owns 16 or 32 rows. They are the rows of its MMAs, so P and dS are already in its registers as operands of the next product.
//$ note Rows of more than 128 elements leave no room for both dK and dV: then there are two launches.
//$ end
//$ note Per-sequence lengths: a block works on one sequence.
//$ include "backward/$layout.cuh"
//$ include "expression/tables_launch.cuh" if mask_tables > 0
//$ let row_statistics = dq_added
//$ if dq_added
//$ include "backward/row_statistics_launch.cuh"
//$ include "backward/d_sinks_launch.cuh" if wants_d_sinks == 1
//$ include "backward/dk_dv_dq_launch.cuh"
//$ include "backward/round_dq_launch.cuh"
//$ workspace 4 * heads * ((packed_rows / rows_padded + batch) * rows_padded) * (2 + dq_width) if layout == ragged else 4 * batch * heads * ((len_q + rows_padded - 1) / rows_padded * rows_padded) * (2 + dq_width)
//$ else
//$ include "backward/row_dots_launch.cuh"
//$ include "backward/d_sinks_launch.cuh" if wants_d_sinks == 1
//$ let head_sums = head_reads
//$ let head_part_rows = block_m
//$ include "backward/clear_d_params_launch.cuh" if wants_d_params > 0
//$ include "backward/head_sums.cuh" if wants_d_params > 0 and head_reads > 0
//$ include "backward/d_params.cuh" if wants_d_params > 0
//$ include "backward/dk_dv_launch.cuh" if wants_dk == 1 or wants_dv == 1
//$ include "backward/dq_launch.cuh" if wants_dq == 1 or wants_d_params > 0
//$ include "backward/head_d_params_launch.cuh" if wants_d_params > 0 and head_reads > 0
//$ workspace 4 * batch * heads * (2 * len_q + head_sums * (threads / 32) * ((len_q + block_m - 1) / block_m)) if head_sums > 0 else 8 * batch * heads * len_q
//$ end
