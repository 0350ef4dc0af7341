//$ needs dtype dtype_out head_dim head_dim_v mask score sinks dropout layout page_size block_m block_n stages overlap
//$ needs scheduler store cluster pack_gqa mask_tiles p_in q_in target target_shared_bytes split_keys score_form score_bias

//$ note The problems it computes.
//$ require max(head_dim, head_dim_v) <= 256
//$ require target == sm_90a
//$ require dtype != fp32
//$ require head_dim % 8 == 0
//$ require head_dim_v % 8 == 0
//$ let columns_v = head_dim_v
//$ let output_columns = head_dim_v
//$ let rows_aligned = true
//$ let plain_scores = mask != custom_mask and score == scaled
//$ let folded = score_form in [linear, tanh]

//$ note Its schedules: defaults, values worth trying, limits.
//$ defaults "attention_flash_async.yaml"
//$ default overlap = both if block_m == 128 and head_dim <= 128 and head_dim_v <= 128 and mask != custom_mask else intra_warpgroup
//$ default rescale = from_sum
//$ default q_in = q_shared
//$ default tile_order = sections
//$ note A tile map and partial results occupy the place in the workspace where the item counter would be.
//$ default scheduler = persistent if layout == dense or (mask_tiles != bitmap and split_keys == 0 and cluster == 1) else per_tile
//$ default store = direct if dtype_out == fp32 or layout != dense else tma
//$ tune target in [sm_90a]
//$ tune block_m in [64, 128, 192, 256]
//$ tune block_n in [16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256]
//$ tune stages in [1, 2, 3, 4]
//$ tune pack_gqa in [0]
//$ tune p_in in [p_registers]
//$ tune q_in in [q_shared, q_registers]
//$ tune cluster in [1, 2]
//$ tune splits in [1]
//$ require block_m in [64, 128, 192, 256]
//$ require block_n % 16 == 0
//$ require store == direct or dtype_out != fp32
//$ require layout == dense or store == direct
//$ require layout == dense or scheduler == per_tile or (mask_tiles != bitmap and split_keys == 0 and cluster == 1)
//$ require page_size == 0 or page_size >= 16
//$ require page_size == 0 or cluster == 1
//$ require pack_gqa == 0 or (scheduler == persistent and layout == dense)
//$ require cluster in [1, 2]
//$ require block_m < 256 or cluster == 1 or pack_gqa == 0
//$ require pack_gqa == 0 or (plain_scores and sinks == 0 and dropout == 0)

//$ note Its warpgroups, and how much of the next K/V tile and of the next Q tile they compute ahead.
//$ let consumers = block_m / 64
//$ let output_registers = output_columns / 2
//$ let p_steps = block_n / 16
//$ let scores_ahead = overlap == intra_warpgroup or overlap == both
//$ let pingpong_schedule = overlap == pingpong or overlap == both
//$ require not pingpong_schedule or consumers == 2

//$ note Shared memory. The rest becomes a second buffer for Q, then one more stage of K.
//$ let panels = (head_dim + 63) / 64
//$ let panels_v = (head_dim_v + 63) / 64
//$ let k_bytes = panels * block_n * 128
//$ let v_bytes = panels_v * block_n * 128
//$ let q_panels = panels_v if store == tma and panels_v > panels else panels
//$ let q_bytes = q_panels * block_m * 128
//$ let p_panels = (block_n + 63) / 64
//$ let p_bytes = p_panels * block_m * 128 if p_in == p_shared else 0
//$ let q_stage_bytes = q_bytes + 16 * consumers
//$ let k_stage_bytes = k_bytes + 16
//$ let v_stage_bytes = v_bytes + 16
//$ let bias_stages = 2 if score_bias == bias_rows else 0
//$ let bias_bytes = bias_stages * consumers * (64 * 2 * (block_n + 8) + 16) if score_bias == bias_rows else 0
//$ let changes_sequence = layout != dense and scheduler == persistent
//$ let sequence_bytes = 48 if changes_sequence else 0
//$ let least_bytes = q_stage_bytes + p_bytes + stages * (k_stage_bytes + v_stage_bytes) + bias_bytes + sequence_bytes + 64
//$ let q_stages = 2 if scheduler == persistent and (store == tma or changes_sequence) and least_bytes + q_stage_bytes <= target_shared_bytes else 1
//$ let held_bytes = least_bytes + (q_stages - 1) * q_stage_bytes
//$ let k_stages = stages + 1 if scores_ahead and held_bytes + k_stage_bytes <= target_shared_bytes else stages
//$ let overlap_q_tiles = scheduler == persistent and scores_ahead and (store == direct or q_stages == 2) and (store == tma or head_dim_v <= 128)
//$ let shared_bytes = (held_bytes + (k_stages - stages) * k_stage_bytes + 1023) / 1024 * 1024

//$ note Blocks and clusters.
//$ let block_threads = 128 * (consumers + 1)
//$ let tile_rows = cluster * block_m
//$ let units = tile_rows / 64
//$ note A TMA box of K or V lies within a page and within a tile.
//$ let share = block_n / cluster if page_size == 0 else min(page_size, 64) if block_n % 64 == 0 else min(page_size, 32) if block_n % 32 == 0 else 16
//$ let skip_per_warpgroup = not pingpong_schedule
//$ let in_pairs = scheduler == persistent and mask == causal and layout == dense

//$ note Readers of a stage, and whether a NaN of a key that a row does not see may have reached the row.
//$ let kv_readers = consumers * cluster
//$ let nonfinite_values = mask != none or layout != dense
//$ let q_readers = 128 if store == tma else 4 if q_in == q_registers else 1

//$ note Registers per thread.
//$ let producer_registers = 56 if consumers == 1 else 40 if consumers == 2 else 32
//$ let consumer_registers = 256 if consumers == 1 else 232 if consumers == 2 else 160 if consumers == 3 else 112
//$ let p_registers_held = block_n / 4 if p_in == p_registers else 0
//$ let q_registers_held = (head_dim + 15) / 16 * 4 if q_in == q_registers else 0
//$ require block_n / 2 + p_registers_held + q_registers_held + head_dim_v / 2 + 32 <= consumer_registers
//$ note The partial results need registers beside O: these tiles spill.
//$ require split_keys == 0 or consumers < 4 or (head_dim_v <= 64 and mask == none)
//$ require split_keys == 0 or consumers < 3 or mask == none or (head_dim_v <= 64 and block_n <= 96)
//$ let blocks_at_once = 1 if split_keys > 0
//$ let cluster_blocks = cluster if split_keys > 0
