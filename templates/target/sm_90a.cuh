//$ needs dtype dtype_out head_dim block_n score_bias
//$ include "target/sm_90a_async.cuh"
//$ include "target/sm_90a_copies.cuh" if score_bias == bias_rows
//$ let bfloat16 = dtype == bf16
//$ let bfloat16_out = dtype_out == bf16
//$ let q_steps = (head_dim + 15) / 16
//$ let scores_registers = block_n / 2
