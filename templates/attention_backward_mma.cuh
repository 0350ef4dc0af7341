//$ needs dtype head_dim head_dim_v score layout block_m block_n threads stages target target_shared_bytes wants_dk
//$ needs wants_dv

//$ note What it computes.
//$ require max(head_dim, head_dim_v) <= 256
//$ require target != any
//$ require dtype != fp32
//$ let columns_qk = (head_dim + 7) / 8 * 8
//$ let columns_v = (head_dim_v + 7) / 8 * 8
//$ let widest = max(columns_qk, columns_v)
//$ let apart = widest > 128 or wants_dk == 0 or wants_dv == 0

//$ note Its schedules: defaults, values worth trying, what is possible.
//$ default threads = 128
//$ defaults "attention_backward_mma.yaml"
//$ tune target in [sm_80, sm_86, sm_89, sm_90, sm_120]
//$ tune block_m in [64, 128]
//$ tune block_n in [64, 128]
//$ tune threads in [128, 256]
//$ tune stages in [1, 2]
//$ require threads in [128, 256]
//$ require block_m * 2 in [threads, threads * 2]
//$ require block_n * 2 in [threads, threads * 2]

//$ note Warps and tiles.
//$ let row_tiles_m = block_m * 2 / threads
//$ let row_tiles_n = block_n * 2 / threads
//$ let step_m = 32 if row_tiles_n == 2 or widest > 128 or (widest > 64 and (score == custom_score or layout != dense)) else 48 if widest > 64 else 64
//$ let step_n = 32 if (row_tiles_m == 2 and widest > 64) or widest > 128 else 48 if row_tiles_m == 2 else 64
//$ let bfloat16 = dtype == bf16
//$ let part_keys = block_n

//$ note Shared memory, and registers of a thread.
//$ let steps_qk = (head_dim + 15) / 16
//$ let steps_v = (head_dim_v + 15) / 16
//$ let chunks = 2 * steps_qk
//$ let chunks_v = 2 * steps_v
//$ let row_bytes = 16 * (chunks + chunks_v)
//$ let one_stage = row_bytes * max(block_n + step_m, block_m + step_n) + 2048
//$ let two_stages = one_stage + row_bytes * max(step_m, step_n)
//$ note Two blocks on an SM are worth more than a tile that comes in ahead.
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
//$ let blocks_at_once = 256 / threads
