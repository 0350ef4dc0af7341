//$ needs dtype head_dim head_dim_v mask score sinks dropout page_size shared_kv block_m block_n stages q_in target

//$ note The problems it computes.
//$ require target == sm_90a
//$ require dtype != fp32
//$ require shared_kv == 1
//$ require mask != custom_mask
//$ require score == scaled
//$ require sinks == 0
//$ require dropout == 0
//$ require head_dim % 64 == 0
//$ require head_dim_v % 128 == 0
//$ note P of a tile takes the place of the panel of K that is not V.
//$ require head_dim >= head_dim_v + 64
//$ require page_size == 0 or page_size >= 16

//$ note Its only schedule.
//$ default block_m = 64
//$ default block_n = 64
//$ default stages = 2
//$ default q_in = q_shared
//$ tune target in [sm_90a]
//$ tune block_m in [64]
//$ tune block_n in [64]
//$ tune stages in [2]
//$ tune q_in in [q_shared]
//$ require block_m == 64
//$ require block_n == 64
//$ require stages == 2
//$ require q_in == q_shared

//$ note Sizes.
//$ let columns_v = head_dim_v
//$ let output_columns = head_dim_v / 2
//$ let output_registers = output_columns / 2
//$ let p_steps = block_n / 16
//$ let rows_aligned = false
//$ let panels = head_dim / 64
//$ let output_panels = output_columns / 64
//$ let k_bytes = panels * block_n * 128
//$ let least_run = 2
//$ let q_tile_cost = 0
//$ note The cost of a split Q tile for a block, in K/V tiles.
//$ let split_cost = 8
//$ let apart = false
//$ let share = min(page_size, 64) if page_size > 0 else 64
//$ let block_threads = 384
//$ let producer_registers = 40
//$ let consumer_registers = 232
//$ let shared_bytes = (panels * block_m * 128 + stages * (k_bytes + 8 * panels + 16) + 16 * block_m + 1023) / 1024 * 1024
