//$ needs dtype dtype_out head_dim head_dim_v layout page_size page_table dtype_kv kv_scale rope rope_dim rope_from
//$ needs slots threads

//$ note Its schedule.
//$ default threads = 128
//$ tune threads in [64, 128, 256]
//$ tune target in [any, sm_80]
//$ require threads % 32 == 0

//$ note The problems it computes.
//$ let kept = dtype_kv == fp32 and dtype == fp32 or dtype_kv == fp16 and dtype == fp16 or dtype_kv == bf16 and dtype == bf16
//$ require kept or dtype_kv in [e4m3, e5m2, int8]
//$ require kv_scale == none or dtype_kv in [e4m3, e5m2, int8]
//$ require page_size in [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
//$ require page_size > 0 or page_table == table
//$ require slots == 0 or (page_size > 0 and layout == dense and page_table == table)
//$ require slots == 1 or page_size == 0 or layout != dense
//$ require rope != none or (rope_dim == 0 and rope_from == base and dtype_out == dtype)
//$ require rope_dim % 2 == 0 if rope != none
//$ require rope_dim <= head_dim if rope != none
//$ require head_dim % 2 == 0 if rope != none and rope_dim == 0
//$ let half = 0 if rope == none else rope_dim / 2 if rope_dim > 0 else head_dim / 2
//$ if dtype != fp32 and head_dim % 8 == 0 and head_dim_v % 8 == 0 and half % 8 == 0
//$ let width = 8
//$ elif head_dim % 4 == 0 and head_dim_v % 4 == 0 and half % 4 == 0
//$ let width = 4
//$ elif head_dim % 2 == 0 and head_dim_v % 2 == 0 and half % 2 == 0
//$ let width = 2
//$ else
//$ let width = 1
//$ end

//$ note Lanes per row, and rows per warp.
//$ let row_pairs = (max(head_dim, head_dim_v) + 2 * width - 1) / (2 * width)
//$ let lanes = 32 if row_pairs > 16 else 16 if row_pairs > 8 else 8 if row_pairs > 4 else 4 if row_pairs > 2 else 2
//$ let rows = 4
//$ let heads_of_warp = 32 / lanes * rows
//$ let warps = threads / 32
