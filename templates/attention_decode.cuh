//$ needs dtype head_dim head_dim_v dropout batch_invariant layout page_size shared_kv dtype_kv kv_scale append rope rope_dim block_m
//$ needs block_n threads stages target target_shared_bytes quantised

//$ note The problems it computes.
//$ require dropout == 0
//$ require target != any
//$ require dtype != fp32
//$ require quantised == 1 or (dtype == fp16 and dtype_kv == fp16) or (dtype == bf16 and dtype_kv == bf16)
//$ note New tokens (knob append).
//$ require append == 0 or (quantised == 0 and shared_kv == 0)
//$ require rope == none or (rope_dim % 2 == 0 and rope_dim <= head_dim)
//$ require rope == none or (rope_dim > 0 or head_dim % 2 == 0)
//$ let half = 0 if rope == none else rope_dim / 2 if rope_dim > 0 else head_dim / 2
//$ let columns_v = (head_dim_v + 15) / 16 * 16

//$ note Its schedules: defaults, values worth trying, limits.
//$ default block_m = 8
//$ note Each warp has its own stages: 64 KiB or more in flight per SM keep the memory busy.
//$ default stages = 1 if max(head_dim, head_dim_v) > 256 and (shared_kv == 0 or target_shared_bytes < 131072) else 2
//$ default block_n = 32 if max(head_dim, head_dim_v) <= 64 or quantised == 1 else 16
//$ if max(head_dim, head_dim_v) > 128 and target_shared_bytes < 131072 or max(head_dim, head_dim_v) > 256 and target_shared_bytes < 200000
//$ default threads = 64
//$ elif max(head_dim, head_dim_v) > 128 or target_shared_bytes < 131072 or (block_m == 32 or kv_scale == token) and max(head_dim, head_dim_v) > 64 and target_shared_bytes < 200000
//$ default threads = 128
//$ else
//$ default threads = 256
//$ end
//$ tune target in [sm_80, sm_86, sm_89, sm_90, sm_120]
//$ tune block_m in [8, 16, 32]
//$ tune block_n in [16, 32]
//$ tune threads in [128, 256]
//$ tune stages in [2, 3, 4]
//$ require block_m in [8, 16, 32]
//$ require block_n in [16, 32]
//$ require block_n == 32 or quantised == 0
//$ require shared_kv == 0 or quantised == 0
//$ require threads in [64, 128, 256]

//$ note Warps and tiles.
//$ let warps = threads / 32
//$ let least_run = warps
//$ let row_groups = block_m / 8
//$ let key_groups = block_n / 16
//$ let bfloat16 = dtype == bf16 and quantised == 0
//$ let q_steps = (head_dim + 15) / 16
//$ let o_steps = columns_v / 16
//$ let rows_aligned = false
//$ let q_held = row_groups * q_steps <= 16
//$ if quantised == 1
//$ require row_groups * q_steps <= 16
//$ let chunks = q_steps
//$ let chunks_v = o_steps
//$ let row_units = dtype == bf16 or kv_scale in [tensor, head]
//$ else
//$ let chunks = 2 * q_steps
//$ let chunks_v = 2 * o_steps
//$ end

//$ note Shared memory and its use by a block.
//$ let scale_bytes = 8 * block_n if kv_scale == token else 0
//$ let q_bytes = 0 if q_held else 16 * block_m * chunks
//$ note Q of the next Q tile is held in registers, unless it takes too many: then each Q tile begins with a load.
//$ let q_ahead = q_held or block_m * chunks <= 5 * threads
//$ note Two K/V tiles of each warp: a change of the Q tile waits about that long for memory.
//$ let q_tile_cost = 2 * warps
//$ let split_cost = 0
//$ note Warps that each have their own run do not share Q in shared memory.
//$ let apart = layout != dense and batch_invariant == 0 and q_held
//$ require row_groups * o_steps <= 32
//$ require block_m == 8 or head_dim_v <= 192
//$ let page_bytes = 128 * warps * stages if page_size > 0 else 0
//$ let row_chunks = chunks if shared_kv == 1 else chunks + chunks_v
//$ let shared_bytes = q_bytes + page_bytes + warps * (stages * (block_n * 16 * row_chunks + scale_bytes) + 32 * columns_v + 8 * block_m)
