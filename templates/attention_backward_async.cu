//$ note The accumulators of dK and dV together may take up to 128 registers per thread of two warpgroups. Three warpgroups hold those of
//$ note 96 keys and up to 192 columns, and share the rest of the work by roles. Where neither is possible, dV and dK have a launch each.
//$ let long_rows = head_dim + head_dim_v > 256
//$ let plain = score != custom_score and mask != custom_mask and dropout == 0
//$ let roles_fit = long_rows and head_dim <= 192 and head_dim_v <= 192 and plain and dtype_out == dtype
//$ note Packed sequences were not measured with one launch. For some sizes three are faster (runtime/choose_gradients.c).
//$ default block_n = 96 if roles_fit and layout == dense else 128
//$ let by_role = roles_fit and block_n == 96
//$ note dQ is added in memory by the launch of dK and dV, if that has registers for a part of dQ. With `deterministic`, all blocks add to it in
//$ note the order of their keys, where warps that multiply nothing wait for their turn; consumers would wait themselves. Packed sequences of
//$ note longer rows were not measured with it. For some sizes a launch of its own for dQ is faster (runtime/choose_gradients.c).
//$ note Of rows of 256 columns, two blocks of a cluster have room for dK and dV of 64 keys each.
//$ let narrow = head_dim <= 64 and head_dim_v <= 64
//$ let cluster_fits = head_dim == 256 and head_dim_v == 256 and plain and layout == dense and dtype_out == dtype
//$ let dq_fits = by_role or cluster_fits or (not long_rows and head_dim <= 128 and (deterministic == 0 or plain))
//$ default dq_in = dq_memory if dq_fits and (by_role or deterministic == 0 or narrow or layout == dense) else dq_registers
//$ require dq_in == dq_registers or dq_fits
//$ require dq_in == dq_memory or not by_role
//$ let dq_added = dq_in == dq_memory
//$ let by_cluster = cluster_fits and dq_added
//$ let has_roles = by_role or by_cluster
//$ let apart = long_rows and not has_roles
//$ let dq_ordered = dq_added and deterministic == 1
// The gradients of attention on Hopper, warp-specialised. In each block one warp loads tiles by TMA, STAGES steps ahead of their use, and
// three consumer warpgroups multiply them by wgmma. //$ if has_roles
// consumer warpgroups of 64 rows each multiply them by wgmma. //$ else
// Three more warps draw which pairs dropout keeps. //$ if dropout == 1
// Two more warps add dS to the gradients of the parameters that the score reads. //$ if wants_d_params > 0
//
//     dK, dV    a persistent block takes BLOCK_N keys at a time and loops over the queries of all heads that share them, STEP_M at a time
//$ if by_role
//               S = Q K^T,  dP = dO V^T,  dV^T += dO^T P,  dK^T += Q^T dS
//               The rows of S and dP are queries. One consumer computes P, one dS, and all read both from shared memory. The consumers
//               divide the columns of dK and dV.
//     dQ        dQ = dS K in the same loop, by the third consumer. It is added in fp32 to sums in the workspace, which the last launch
//               rounds.
//$ elif by_cluster
//               S^T = K Q^T,  dP^T = V dO^T,  dV += P^T dO,  dK += dS^T Q
//               Two blocks of a cluster have half of the keys each, and read the same queries. In each, one consumer computes P^T and dV,
//               and one dS^T and dK.
//     dQ        dQ = dS K in the same loop, by the third consumer. A block has half of the columns, over the keys of both blocks, which
//               copy dS^T to each other. dQ is added in fp32 to sums in the workspace, which the last launch rounds.
//$ else
//               S^T = K Q^T,  dP^T = V dO^T,  dV += P^T dO,  dK += dS^T Q
//               The rows are keys, so P^T and dS^T are operands in the registers where they are computed.
//$ end
//$ if dq_added and not has_roles
//     dQ        dQ = dS K in the same loop, from dS of all consumers, through shared memory. It is added in fp32 to sums in the workspace,
//               which the last launch rounds.
//$ elif not dq_added
//     dQ        a block keeps BLOCK_M queries and loops over the keys, STEP_N at a time: S = Q K^T,  dP = dO V^T,  dQ += dS K
//$ end
//$ include "attention_backward_async.cuh"
//$ note Per-sequence lengths: a block works on one sequence.
//$ include "backward/$layout.cuh"
//$ include "expression/tables_launch.cuh" if mask_tables > 0
//$ workspace heads * ((packed_rows / step_m + batch) * step_m) / 16 * bytes_of_16_rows + 16 if layout == ragged else batch * heads * ((len_q + step_m - 1) / step_m * step_m) / 16 * bytes_of_16_rows + 16
//$ include "backward/row_statistics_launch.cuh"
//$ let row_statistics = true
//$ include "backward/d_sinks_launch.cuh" if wants_d_sinks == 1
//$ include "backward/clear_unset_launch.cuh" if own_elements else "backward/clear_d_params_launch.cuh" if wants_d_params > 0
//$ include "backward/d_params.cuh" if wants_d_params > 0
//$ launch attention_dv grid min(batch * kv_heads * min(heads / kv_heads, most_parts) * ((len_kv + block_n - 1) / block_n), sm_count) block block_threads shared shared_keys dependent if apart
//$ launch attention_dk grid min(batch * kv_heads * min(heads / kv_heads, most_parts) * ((len_kv + block_n - 1) / block_n), sm_count) block block_threads shared shared_keys dependent if apart
//$ launch attention_dk_dv grid min(batch * kv_heads * min(heads / kv_heads, most_parts) * ((len_kv + block_n - 1) / block_n), sm_count) block block_threads shared shared_keys dependent if not apart and not dq_added
//$ launch attention_dk_dv_dq grid min(batch * kv_heads * min(heads / kv_heads, most_parts) * ((len_kv + block_n - 1) / block_n), sm_count) block block_threads shared shared_keys dependent if dq_added and most_shares == 0 and not by_cluster
//$ launch attention_dk_dv_dq grid 2 * min(batch * kv_heads * ((len_kv + block_n - 1) / block_n), max(sm_count / 2, 1)) block block_threads shared shared_keys cluster 2 dependent if by_cluster
//$ launch attention_dk_dv_dq grid min(batch * heads * ((len_kv + block_n - 1) / block_n) * max((len_q + step_m - 1) / step_m, 1), sm_count) block block_threads shared shared_keys dependent if most_shares > 0
//$ include "backward/round_dq_launch.cuh" if dq_added
//$ tensor_map q rows step_m cols 64
//$ tensor_map k rows part_keys cols 64
//$ tensor_map v rows part_keys cols 64
//$ tensor_map d_o rows step_m cols 64
//$ include "params/attention_backward_tma.h"
//$ include "target/sm_90a_async.cuh" if tma_statistics else "target/sm_90a_copies.cuh"
//$ include "target/sm_90.cuh"
//$ include "pipeline/ring.cuh"
//$ include "pipeline/release_by_thread.cuh"
//$ include "backward/unit_products.cuh"
//$ include "backward/items.cuh"
//$ include "backward/weigh_keys.cuh"
//$ include "backward/other_tiles.cuh"
//$ include "backward/repeat_keys.cuh"
//$ include "backward/store_rows.cuh"

// A tile of 16-bit elements is stored in panels of 64 columns: [panel][row][64], 128 bytes a row, swizzled by TMA.
template <int PANELS_OF, int ROWS> using Panels = unsigned short[PANELS_OF][ROWS][64];

// A tile of the side that the block loops over, as the producer found it.
struct Step {
    int first; // first query or key of the tile; negative after the last step
    unsigned whole; // one bit per block of the cluster: set if all of its pairs are seen //$ if by_cluster
    unsigned whole; // one bit per consumer: set if all of its pairs are seen //$ else
    bool last; // true if the item has no further step //$ if products_within_step
    int late_sums; // dQ tile of the previous step //$ if dq_in_turn
    int sums; // dQ tile of this step //$ elif has_roles or products_within_step
    int sums, late_sums; // dQ tile of this step, or of the last one at the end of an item; dQ tile of two steps before //$ elif dq_added
    Where where; //$ if mask == custom_mask or score == custom_score
};

//$ include "backward/keys_by_role.cuh" if by_role else "backward/keys_by_cluster.cuh" if by_cluster else "backward/keys_by_consumer.cuh"
//$ include "backward/dq_unit_launch.cuh" if not dq_added
