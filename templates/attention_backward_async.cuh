//$ needs dtype head_dim head_dim_v mask score score_bias score_adds head_reads pair_elements wants_dq wants_dk wants_dv wants_d_params dropout layout block_m block_n stages overlap target target_shared_bytes
//$ needs mask_tables plain apart dq_added dq_ordered by_role by_cluster has_roles

//$ note The problems it computes.
//$ require target == sm_90a
//$ require dtype != fp32
//$ note Gradients of the tensors that a score reads are added from the tiles of dS that are shared for dQ. Where the score adds to s, dS
//$ note is that gradient. Elements that all pairs of a head read would need sums of their own.
//$ require wants_dq == 1 and wants_dk == 1 and wants_dv == 1
//$ require wants_d_params == 0 or (score_adds == 1 and head_reads == 0 and dq_added and dropout == 0)
//$ require head_dim % 8 == 0 and head_dim_v % 8 == 0
//$ require head_dim <= 256 and head_dim_v <= 256
//$ let bfloat16 = dtype == bf16

//$ note Its schedules: defaults, values worth trying, limits.
//$ let short_rows = head_dim + head_dim_v <= 192
//$ default stages = 2
//$ if dq_added
//$ note block_m is the number of queries per step. With 128 queries, registers hold S and dP of one step at a time, and only of short rows.
//$ let long_steps = head_dim <= 64 and head_dim_v <= 64 and plain
//$ default block_m = 128 if long_steps else 64
//$ note Each consumer multiplies its part of dQ: 64 of the queries, half of the columns (within a panel), or all of dQ in every second
//$ note step. With turns, dS is read half as often, but registers must hold all columns of dQ and the values that a score keeps.
//$ let most_columns = 96 if score != custom_score else 64 if score_adds == 1 and wants_d_params == 0 else 0
//$ let dq_in_turn = not by_role and block_m == 64 and head_dim <= most_columns and head_dim_v <= most_columns
//$ let products_within_step = plain and not has_roles and not dq_in_turn
//$ default overlap = intra_warpgroup if dq_in_turn or has_roles or products_within_step else both
//$ let step_m = block_m
//$ let step_n = block_n if by_role else 64
//$ require block_m == 64 or (block_m == 128 and long_steps)
//$ else
//$ default block_m = 128
//$ default overlap = both if plain and (short_rows or apart) else intra_warpgroup
//$ let dq_in_turn = false
//$ let products_within_step = false
//$ let step_m = 64
//$ let step_n = 128 if head_dim <= 128 and head_dim_v <= 128 and score != custom_score else 64
//$ require block_m == 128
//$ end
//$ note There, dQ goes to memory through shared memory. With turns that was slower.
//$ let dq_staged = products_within_step
//$ tune target in [sm_90a]
//$ tune block_m in [64, 128]
//$ tune block_n in [96, 128]
//$ tune stages in [2]
//$ tune dq_in in [dq_memory, dq_registers]
//$ tune overlap in [intra_warpgroup, both]
//$ require block_n == 128 or by_role
//$ require stages == 2
//$ require overlap == intra_warpgroup or (overlap == both and not has_roles and not products_within_step)

//$ note Where f, the derivative of the score with respect to s, is not 1, registers hold P^T f beside P^T. Where f is 1 and registers
//$ note allow, the addend of the score is computed while S is multiplied.
//$ let slopes_differ = score == custom_score and score_adds == 0
//$ note Where the score is s plus an addend, a NaN in K or Q makes every score of its row NaN. Then it is taken out of tiles: under a causal mask
//$ note by the producer, which LSE and D tell of it; otherwise, and in tiles that reach into the next sequence, by consumers, which test scores.
//$ note But not by consumers that take turns with dQ: the test slowed each of their steps by 5 %, on data without NaN as well. With steps of 128
//$ note queries, in contrast, consumers lost nothing by the test, but 2 % if the producer did this.
//$ let nan_reaches_scores = not slopes_differ
//$ let clears_in_step = nan_reaches_scores and products_within_step and step_m == 128
//$ let clears_loaded = nan_reaches_scores and mask == causal and not clears_in_step
//$ let clears_scored = clears_in_step or (nan_reaches_scores and not by_role and not dq_in_turn and (mask == custom_mask or layout != dense))
//$ let marks_d_o = clears_loaded or clears_in_step
//$ let added_ahead = score_adds == 1 and short_rows
//$ note Rows of dS in shared memory are queries; if gradients of parameters are added from them, eight queries of a key at a time, they are keys.
//$ let d_s_of_keys = wants_d_params > 0
//$ note Where no two pairs of a batch read the same element, its gradient is set, not added to. Under a causal mask, of which half of the
//$ note elements must be cleared, that was no faster.
//$ let own_elements = wants_d_params == 1 and pair_elements != shared_elements and layout == dense and mask == none
//$ let batches_together = own_elements and pair_elements == elements_of_head
//$ let bias_copied = score_bias == bias_rows and dropout == 0 and head_dim + head_dim_v <= 256

//$ note Warpgroups and launches. Where a mask is an expression and the producer has a warp without work, this warp finds the tiles that are seen.
//$ let tiles_found_ahead = mask == custom_mask and dropout == 0 and not bias_copied and wants_d_params == 0
//$ let pingpong_schedule = overlap == both
//$ note A product of 64 columns reads as much of operand a from shared memory as of operand b, and takes as long as these reads. So consumers
//$ note hold columns of K and V as operands in registers, in steps of 16: as many as NVRTC takes without spilling. The launch of dV has room
//$ note for more of K than that of dK.
//$ let k_steps = (head_dim + 15) / 16
//$ let v_steps = (head_dim_v + 15) / 16
//$ if plain and apart
//$ let own_k_steps = min(k_steps, 3)
//$ let own_k_steps_of_dv = min(k_steps, 7)
//$ let own_v_steps = 0
//$ else
//$ let room = (plain and not dq_added) or (dq_in_turn and score != custom_score and dropout == 0)
//$ let own_k_steps = k_steps if room and head_dim + head_dim_v <= 128 else 0
//$ let own_k_steps_of_dv = 0
//$ let own_v_steps = v_steps if room and short_rows else 0
//$ end
//$ let keys_in_registers = own_k_steps + own_k_steps_of_dv + own_v_steps > 0
//$ let consumers = 3 if has_roles else 2
//$ note Tiles are classified for the keys of each consumer, or of each block of a cluster, since it tests only pairs of its own keys.
//$ let part_keys = block_n if by_role else 64
//$ note At most this many blocks share the steps of the last items. Expressions and dropout were not measured with shares.
//$ let most_shares = 256 if dq_added and not dq_ordered and layout == dense and plain and not by_cluster else 0
//$ let divides_heads = 1 if (mask == causal or most_shares == 0) and not (by_role and dq_ordered) and not by_cluster else 0
//$ let most_parts = 1024 if divides_heads == 1 else 1
//$ let items_in_parts = most_shares > 0 or divides_heads == 1
//$ note Sums of an item in parts: of each warp, vectors of four for each lane.
//$ let warps_of_item = 4 * consumers
//$ let counters_of_item = 2 * warps_of_item if apart else warps_of_item
//$ let part_vectors = 2 * block_n / 8 if by_role else (head_dim + head_dim_v) / 8
//$ let part_bytes = 512 * warps_of_item * part_vectors
//$ let rows_padded = step_m
//$ note If the last queries come first, and all heads of a group in succession, blocks with different keys read the same queries at the same
//$ note time. Without an order of additions, that was no faster for rows of up to 96 elements.
//$ let queries_descend = dq_ordered or (dq_added and plain and not by_role and not short_rows)
//$ note For each query the workspace holds D, LSE, and room for counters if dQ is added in order, besides dQ; and for each four queries a
//$ note byte that tells of NaN.
//$ let row_numbers = 3 if dq_ordered else 2
//$ let vector_sums = true
//$ let panels = (head_dim + 63) / 64
//$ let panels_v = (head_dim_v + 63) / 64
//$ note Each block of a cluster has half of the keys, and K of the others for its half of dQ. It adds to dK and dV half of their columns at a time,
//$ note for wider products would take more registers than a warpgroup starts with.
//$ let block_keys = block_n / 2 if by_cluster else block_n
//$ let sum_columns = head_dim / 2 if by_cluster else head_dim
//$ let sum_columns_v = head_dim_v / 2 if by_cluster else head_dim_v
//$ if dq_added
//$ let dq_columns = head_dim if dq_in_turn else 64 if block_m == 128 or has_roles else 32 * panels
//$ let dq_width = head_dim
//$ let dq_bytes = consumers * 64 * dq_columns * 4 if dq_staged else 0
//$ if by_cluster
//$ let gradient_bytes = 2 * block_keys * 2 * step_m + block_keys * head_dim
//$ else
//$ let gradient_bytes = 3 * step_m * 128 * ((block_n + 63) / 64) + 512 * warps_of_item if by_role else 2 * block_n * 2 * step_m + dq_bytes
//$ end
//$ else
//$ let dq_columns = 0
//$ let dq_width = 0
//$ let gradient_bytes = 0
//$ end
//$ note Most of the L2 cache. Under a causal mask, where tiles of keys differ in length, blocks are soon at different heads of those that
//$ note share their keys. So the heads of an item may be divided into parts, of at most as many heads as let Q, dO and the sums of dQ for 132
//$ note parts stay in the cache. Steps with an expression or dropout take longer, and parts for the sake of the cache were slower there.
//$ let l2_bytes = 41943040
//$ let heads_of_part = max(1, l2_bytes / (132 * block_n * (2 * head_dim + 2 * head_dim_v + 4 * dq_width))) if mask == causal and plain else 65536
//$ let nan_bytes = 4 if clears_loaded else 0
//$ let bytes_of_16_rows = 64 * (row_numbers + dq_width) + nan_bytes
//$ note With long rows, the values that a score keeps leave no room for dQ, which is taken before P is computed.
//$ let dq_first = dq_added and score == custom_score and head_dim + head_dim_v > 128
//$ let block_threads = 128 * (consumers + 1)
//$ note The producer classifies tiles, and its other warps draw the random numbers of dropout. With dropout, and where bounds of tensors
//$ note tell which tiles are seen, they take more registers if the consumers can spare them. Consumers with both gradients of long rows
//$ note cannot, nor can those with a score. Then the producer spills, for which it has time.
//$ let consumers_spare = apart and score != custom_score or short_rows
//$ let producer_registers = 24 if not consumers_spare else 56 if dropout == 1 and layout == dense else 40 if dropout == 1 or mask_tables > 0 else 24
//$ let consumer_registers = 224 if producer_registers == 56 else 232 if producer_registers == 40 else 240

//$ note Of three warpgroups, the one that computes dS has registers for dP of half of the keys.
//$ let d_weight_keys = block_n / 2 if by_role else step_n

//$ note Shared memory.
//$ let key_bytes = block_keys * 128 * (panels + panels_v)
//$ let found_bytes = 96 if tiles_found_ahead else 0
//$ let bias_bytes = step_m * (block_n + 8) * 2 if bias_copied else 0
//$ let kept_bytes = step_m * block_n / 8 if dropout == 1 else 0
//$ let step_bytes = step_m * (128 * panels + 8) + bias_bytes + 48
//$ let d_o_bytes = step_m * 128 * panels_v + 16
//$ note dO and the dropout bits are in use for a shorter part of a step than Q: if two tiles of them do not fit, one is enough.
//$ let kept_stages = 2 if key_bytes + gradient_bytes + stages * (step_bytes + kept_bytes) + d_o_bytes + 200 <= target_shared_bytes else 1
//$ let fixed_bytes = gradient_bytes + stages * step_bytes + kept_stages * kept_bytes + found_bytes + 200
//$ let d_o_stages = 2 if key_bytes + fixed_bytes + 2 * d_o_bytes <= target_shared_bytes else 1
//$ note If registers can hold it, dP of the next step is multiplied during this one, with dO of that step in a second tile.
//$ let products_ahead = plain and not dq_added and (short_rows or apart) and d_o_stages == 2
//$ note The launch of dV alone reads no V, and has tiles of dO in its place. It also needs Q no longer once P is computed; but the bits of
//$ note dropout, which it reads later, are released with Q.
//$ let most_d_o_tiles = d_o_stages + consumers if apart else d_o_stages
//$ let queries_released_early = apart and dropout == 0
//$ note Registers have no room for the statistics of a whole step beside products of the next step, or what an expression or dropout keeps.
//$ note Where no products of the next step are ahead, lanes share those of 128 queries, and load those of 64 queries in their order.
//$ let rows_in_order = products_within_step and step_m == 64
//$ let statistics_ahead = plain and not products_ahead and not products_within_step
//$ note TMA loads the statistics where that was faster. Between steps consumers have a fence there, so that it may overwrite what they read.
//$ let tma_statistics = dq_added and plain and block_m == 64
//$ note If they fit, K and V of the next item are loaded during this one.
//$ let streamed_bytes = fixed_bytes + d_o_stages * d_o_bytes
//$ let value_stages = 2 if 2 * key_bytes + streamed_bytes <= target_shared_bytes else 1
//$ note Where only K of the next item fits besides, V is loaded as soon as the last product with V of this one has ended.
//$ let values_apart = products_within_step and value_stages == 1 and key_bytes + block_n * 128 * panels + streamed_bytes <= target_shared_bytes
//$ let key_stages = 2 if values_apart else value_stages
//$ let shared_keys = (block_keys * 128 * (key_stages * panels + value_stages * panels_v) + streamed_bytes + 1023) / 1024 * 1024
