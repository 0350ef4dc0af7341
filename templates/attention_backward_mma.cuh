//$ needs deterministic wants_dq wants_d_params dtype head_dim head_dim_v score layout block_m block_n threads stages target target_shared_bytes wants_dk
//$ needs wants_dv

//$ note The problems it computes.
//$ require max(head_dim, head_dim_v) <= 256
//$ require target != any
//$ require dtype != fp32
//$ let columns_qk = (head_dim + 7) / 8 * 8
//$ let columns_v = (head_dim_v + 7) / 8 * 8
//$ let widest = max(columns_qk, columns_v)
//$ note Where dQ may be added in an order that varies, one kernel forms all three gradients: five products instead of seven. Its tiles
//$ note need much shared memory.
//$ let dq_added = deterministic == 0 and wants_dq == 1 and wants_dk == 1 and wants_dv == 1 and wants_d_params == 0 and score != custom_score and head_dim % 32 == 0 and head_dim_v % 32 == 0 and (widest <= 128 or (head_dim % 64 == 0 and head_dim_v % 64 == 0)) and target_shared_bytes >= 160000
//$ let dq_ordered = false
//$ let by_cluster = false
//$ let queries_descend = false
//$ let row_numbers = 2
//$ let apart = widest > 128 or wants_dk == 0 or wants_dv == 0

//$ note Its schedules: defaults, values worth trying, limits.
//$ defaults "attention_backward_mma.yaml"
//$ tune target in [sm_80, sm_86, sm_89, sm_90, sm_120]
//$ tune block_m in [32, 64, 128]
//$ tune block_n in [64, 96, 128]
//$ tune threads in [128, 256, 384]
//$ tune stages in [1, 2]
//$ require threads in [128, 256, 384]
//$ let bfloat16 = dtype == bf16
//$ let part_keys = block_n
//$ let most_shares = 0
//$ let items_in_parts = false
//$ let warps_of_item = 0
//$ let counters_of_item = 0
//$ let heads_of_part = 1
//$ let divides_heads = 0
//$ let l2_bytes = 41943040
//$ let steps_qk = (head_dim + 15) / 16
//$ let steps_v = (head_dim_v + 15) / 16
//$ let chunks = 2 * steps_qk
//$ let chunks_v = 2 * steps_v
//$ let row_bytes = 16 * (chunks + chunks_v)
//$ if dq_added
//$ note Two or four warps share 32 keys: each takes a part of the queries of a step, and of the columns of dK and dV. For dQ, each takes
//$ note 32 queries and a part of the columns.
//$ require block_n % 32 == 0 and threads in [2 * block_n, 4 * block_n]
//$ require block_m in [32, 64, 128] and threads % block_m == 0
//$ let step_m = block_m
//$ let step_n = 64
//$ let column_warps = threads / block_n
//$ let dq_column_warps = threads / block_m
//$ let warp_queries = step_m / column_warps
//$ let rows_in_order = false
//$ let clears_in_step = false
//$ let marks_d_o = false
//$ let clears_loaded = false
//$ let rows_padded = max(64, step_m)
//$ let dq_width = head_dim
//$ let vector_sums = target in [sm_90, sm_120]
//$ require warp_queries % 16 == 0
//$ require head_dim % (16 * column_warps) == 0 and head_dim_v % (16 * column_warps) == 0 and head_dim % (16 * dq_column_warps) == 0
//$ require (columns_qk + columns_v) / column_warps + 2 * warp_queries <= 200
//$ note P and dS need shared memory beside the tiles.
//$ let one_stage = row_bytes * (block_n + step_m) + 4 * block_n * step_m + 8 * step_m
//$ let two_stages = one_stage + row_bytes * step_m + 8 * step_m
//$ default stages = 2 if target_shared_bytes / two_stages >= max(256 / threads, 1) or (target_shared_bytes / one_stage < 2 and target_shared_bytes / two_stages == 1) else 1
//$ require stages in [1, 2]
//$ let shared_keys = two_stages if stages == 2 else one_stage
//$ else
//$ let dq_width = 0
//$ require block_m * 2 in [threads, threads * 2]
//$ require block_n * 2 in [threads, threads * 2]

//$ note Warps and tiles.
//$ let row_tiles_m = block_m * 2 / threads
//$ let row_tiles_n = block_n * 2 / threads
//$ let step_m = 32 if row_tiles_n == 2 or widest > 128 or (widest > 64 and (score == custom_score or layout != dense)) else 48 if widest > 64 else 64
//$ let step_n = 32 if (row_tiles_m == 2 and widest > 64) or widest > 128 else 48 if row_tiles_m == 2 else 64

//$ note Shared memory, and registers per thread.
//$ let one_stage = row_bytes * max(block_n + step_m, block_m + step_n) + 2048
//$ let two_stages = one_stage + row_bytes * max(step_m, step_n)
//$ note Two blocks per SM gain more than a tile loaded ahead.
//$ if target_shared_bytes / two_stages >= 2 or (target_shared_bytes / one_stage < 2 and target_shared_bytes / two_stages == 1)
//$ default stages = 2
//$ else
//$ default stages = 1
//$ end
//$ require stages in [1, 2]
//$ let shared_keys = 16 * (block_n + stages * step_m) * (chunks + chunks_v) + 8 * stages * step_m
//$ let shared_queries = 16 * (block_m + stages * step_n) * (chunks + chunks_v) + 8 * block_m
//$ if widest > 128
//$ require row_tiles_n == 1 and row_tiles_m == 1
//$ else
//$ require row_tiles_n * (columns_qk / 2 + columns_v / 2 + step_m) <= 200
//$ end
//$ require row_tiles_m * (columns_qk / 2 + step_n) <= 200
//$ end
//$ let blocks_at_once = max(256 / threads, 1)
