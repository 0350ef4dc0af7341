//$ needs dtype dtype_out precision head_dim head_dim_v mask score sinks dropout layout block_m block_n threads stages
//$ needs overlap rescale store pack_gqa q_in target target_shared_bytes split_keys score_form score_bias

//$ note The problems it computes.
//$ require max(head_dim, head_dim_v) <= 256
//$ require target != any
//$ require dtype != fp32 or precision != fp32
//$ require dtype == fp32 or precision == fp32
//$ let columns_v = (head_dim_v + 7) / 8 * 8
//$ let rows_aligned = false
//$ let plain_scores = mask != custom_mask and score == scaled
//$ let folded = score_form in [linear, tanh]
//$ let nonfinite_values = mask != none

//$ note Its schedules: defaults, values worth trying, limits.
//$ defaults "attention_flash_mma.yaml"
//$ let widest = max(head_dim, head_dim_v)
//$ let usual_problem = (score_form in [plain_score, linear] and sinks == 0 and layout == dense or score_bias == bias_rows) and dropout == 0 and dtype != fp32
//$ let q_beside_halves = widest <= 64 and rescale == from_sum and stages > 1 and block_n <= 96
//$ let q_beside_o = plain_scores and widest > 128 and widest <= 192 and block_m == 64 and block_n <= 64 and target_shared_bytes >= 131072
//$ default q_in = q_registers if usual_problem and (q_beside_halves or q_beside_o) else q_shared
//$ note halves reads Q twice, which takes time if Q is in shared memory.
//$ let halves_win = q_in == q_registers or (widest > 96 and widest <= 128)
//$ default overlap = off if rescale != from_sum or block_n < 32 else halves if halves_win else output
//$ default tile_order = sections
//$ default store = direct
//$ tune target in [sm_80, sm_86, sm_89, sm_90, sm_120]
//$ tune block_m in [64, 128, 256]
//$ tune block_n in [32, 48, 64, 80, 96, 128]
//$ tune threads in [128, 256]
//$ tune stages in [1, 2, 3, 4]
//$ tune pack_gqa in [0]
//$ tune q_in in [q_shared, q_registers]
//$ tune rescale in [lazy, from_sum]
//$ tune overlap in [off, output, halves]
//$ tune store in [direct]
//$ tune splits in [1]
//$ require block_m in [64, 128, 256]
//$ require block_n % 16 == 0
//$ require dtype != fp32 or block_n <= 64
//$ require dtype != fp32 or q_in == q_shared
//$ require threads in [128, 256]
//$ require block_m * 2 in [threads, threads * 2]
//$ require rescale != from_sum or ((score_form in [plain_score, linear] or score_bias == bias_rows and stages > 1) and dropout == 0 and dtype != fp32)
//$ require overlap in [off, output, halves]
//$ require overlap == off or (rescale == from_sum and block_n >= 32)
//$ require store == direct
//$ require pack_gqa == 0 or (plain_scores and sinks == 0 and dropout == 0)
//$ note The partial results need registers beside O: 128 x 128 spills.
//$ require split_keys == 0 or block_n <= 64 or (block_n <= 96 and head_dim_v % 8 == 0)

//$ note Warps and tiles.
//$ let row_tiles = block_m * 2 / threads
//$ let split_n = block_n if overlap == off else block_n / 32 * 16
//$ let units = block_m / 64
//$ let bias_stages = stages if score_bias == bias_rows else 0
//$ let tile_rows = block_m
//$ let skip_per_warpgroup = false
//$ let block_threads = threads
//$ let bfloat16 = dtype == bf16
//$ let bfloat16_out = dtype_out == bf16
//$ if dtype == fp32
//$ let q_steps = (head_dim + 7) / 8
//$ let chunks_v = (head_dim_v + 7) / 8 * 2
//$ else
//$ let q_steps = (head_dim + 15) / 16
//$ let chunks_v = (head_dim_v + 15) / 16 * 2
//$ end
//$ let chunks = 2 * q_steps

//$ note Shared memory, and registers per thread.
//$ let bias_bytes = 2 * bias_stages * block_m * block_n + 8 * block_m if score_bias == bias_rows else 0
//$ let shared_bytes = 16 * (block_m * chunks + stages * block_n * (chunks + chunks_v)) + bias_bytes
//$ let q_registers_held = 4 * q_steps if q_in == q_registers else 0
//$ let p_registers = block_n if precision == tf32x3 else block_n / 2
//$ let blocks_at_once = 256 / threads
//$ require row_tiles * (p_registers + columns_v / 2 + q_registers_held) <= 200
//$ let cluster_blocks = 1 if split_keys > 0
