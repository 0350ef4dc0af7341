/* Mutation test for the synchronisation of the tensor-core kernels. It removes or changes every wait, arrival, fence,
   commit, count and parity of the templates, one at a time. The host device must then refuse the kernel, find a race,
   or compute a wrong result. */
#include "helper_part.h"
#include "text.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef ATTILE_RACE
#define ATTILE      "" /* one program cannot have two sanitizers */
#define ATTILE_RACE ""
#endif

#define ASYNC    "dtype=bf16 family=attention_forward algorithm=flash_async target=sm_90a "
#define MMA      "dtype=bf16 family=attention_forward algorithm=flash_mma target=sm_80 "
#define TF32     "dtype=fp32 family=attention_forward algorithm=flash_mma target=sm_80 "
#define DECODE   "dtype=bf16 family=attention_forward algorithm=decode target=sm_80 "
#define MLA      "dtype=bf16 family=attention_forward algorithm=mla target=sm_90a head_dim=192 head_dim_v=128 shared_kv=1 "
#define BACKWARD "dtype=bf16 family=attention_backward algorithm=flash_mma target=sm_80 "
/* Their launches are dependent launches. */
#define MMA_90       "dtype=bf16 family=attention_forward algorithm=flash_mma target=sm_90 "
#define DECODE_90    "dtype=bf16 family=attention_forward algorithm=decode target=sm_90 "
#define BACKWARD_90  "dtype=bf16 family=attention_backward algorithm=flash_mma target=sm_90 "
#define BACKWARD_90A "dtype=bf16 family=attention_backward algorithm=flash_async target=sm_90a "
#define BIAS         "score=\"s + values[h, q, k]\" params=\"values: bf16[heads, len_kv, len_kv]\"" /* copied ahead */

/* The templates that are mutated. */
static const char *const files[] = {
    "attention_flash_async.cu",
    "work/heads_packed.cuh",
    "work/block.cuh",
    "work/cluster.cuh",
    "work/queue_tiles.cuh",
    "work/queue_pairs.cuh",
    "work/pairs_then_tiles.cuh",
    "walk/bitmap_launch.cuh",
    "load/tiles_of_queries.cuh",
    "load/tiles_of_keys.cuh",
    "expression/bias_rows.cuh",
    "load/bias_rows.cuh",
    "load/bias_tile.cuh",
    "fragment/p_shared.cuh",
    "fragment/score_bias_rows.cuh",
    "pipeline/release.cuh",
    "fragment/negate_queries.cuh",
    "pipeline/turns_pingpong.cuh",
    "pipeline/consumer.cuh",
    "pipeline/take_seen_keys.cuh",
    "pipeline/await_q_shared.cuh",
    "pipeline/await_q_registers.cuh",
    "pipeline/issue_round.cuh",
    "pipeline/rescale_from_sum.cuh",
    "pipeline/rescale_on_growth.cuh",
    "pipeline/keys_in_sequence.cuh",
    "pipeline/keys_ahead_peeled.cuh",
    "pipeline/keys_ahead_unpeeled.cuh",
    "pipeline/q_tiles_in_sequence.cuh",
    "pipeline/q_tiles_overlapped.cuh",
    "store/tma.cuh",
    "store/finish.cuh",
    "attention_flash_mma.cu",
    "pipeline/copies_ahead.cuh",
    "pipeline/copies_in_turn.cuh",
    "load/copy_tile_ahead.cuh",
    "fragment/warp_products_tf32.cuh",
    "backward/dk_dv_dq_launch.cuh",
    "backward/round_dq_launch.cuh",
    "backward/dk_dv_launch.cuh",
    "backward/dq_launch.cuh",
    "backward/sum_over_queries.cuh",
    "backward/sum_over_keys.cuh",
    "attention_decode.cu",
    "load/keys_by_warp.cuh",
    "load/queries_in_shared.cuh",
    "load/new_rows.cuh",
    "fragment/rope_keys.cuh",
    "fragment/rope_queries_shared.cuh",
    "store/new_tokens.cuh",
    "pipeline/merge_warps.cuh",
    "store/combine_launch.cuh",
    "store/combine.cuh",
    "backward/row_dots_launch.cuh",
    "backward/draw_queries.cuh",
    "backward/help_with_items.cuh",
    "backward/copy_bias.cuh",
    "backward/add_d_params.cuh",
    "attention_backward_async.cu",
    "backward/items.cuh",
    "backward/produce_queries.cuh",
    "backward/find_tiles.cuh",
    "backward/consume_queries.cuh",
    "backward/multiply_dq.cuh",
    "backward/store_d_s.cuh",
    "backward/find_added.cuh",
    "backward/join_parts.cuh",
    "backward/keys_by_consumer.cuh",
    "backward/keys_by_role.cuh",
    "backward/role_steps.cuh",
    "backward/role_of_weights.cuh",
    "backward/role_of_gradients.cuh",
    "backward/role_of_dq.cuh",
    "backward/keys_by_cluster.cuh",
    "backward/produce_in_cluster.cuh",
    "backward/steps_in_cluster.cuh",
    "backward/weights_in_cluster.cuh",
    "backward/gradients_in_cluster.cuh",
    "backward/dq_in_cluster.cuh",
    "backward/panel_sums.cuh",
    "backward/store_panels.cuh",
    "backward/dq_rows.cuh",
    "backward/send_dq.cuh",
    "backward/add_dq.cuh",
    "backward/keep_order.cuh",
    "backward/dq_unit_launch.cuh",
    "backward/produce_keys.cuh",
    "backward/consume_keys.cuh",
    "pipeline/release_by_thread.cuh",
    "backward/scores_ahead.cuh",
    "backward/products_ahead.cuh",
    "backward/products_within_step.cuh",
    "backward/turns.cuh",
    "attention_mla.cu",
    "load/keys_of_query.cuh",
    "load/paged_keys_of_query.cuh",
    "load/queries_in_panels.cuh",
    "pipeline/half_of_columns.cuh",
    "store/half_of_columns.cuh",
};
enum { FILES = sizeof files / sizeof *files };

/* Together they use every line. Blocks have several Q tiles. In the first variant some warpgroups see only one K/V
   tile, or none, where others see more of them than there are stages. */
static const struct {
    const char *knobs, *shape;
} variants[] = {
    {ASYNC "mask=causal block_m=192 head_dim=8 block_n=16 stages=2 overlap=intra_warpgroup store=direct",
     "heads=3,len_q=900,len_kv=160"}, /* some heads go by pairs of tiles, some tile by tile */
    {ASYNC "mask=causal block_m=128 head_dim=72 block_n=32 stages=1 overlap=both store=tma",
     "heads=2,len_q=400,len_kv=330"},
    {ASYNC "mask=none block_m=64 head_dim=8 block_n=16 stages=3 overlap=off store=direct p_in=p_shared rescale=lazy",
     "heads=3,len_q=150,len_kv=200"},
    {ASYNC "mask=causal block_m=64 head_dim=8 block_n=16 stages=1 overlap=intra_warpgroup store=tma scheduler=per_tile "
           "cluster=2",
     "heads=1,len_q=300,len_kv=300"},
    {ASYNC
     "mask=causal block_m=64 head_dim=8 block_n=16 stages=1 overlap=intra_warpgroup store=tma cluster=2 rescale=lazy",
     "heads=1,len_q=300,len_kv=300"},
    {ASYNC
     "mask=\"k <= q and q - k < 90\" block_m=192 head_dim=8 block_n=16 stages=2 overlap=intra_warpgroup store=direct "
     "q_in=q_registers",
     "heads=2,len_q=400,len_kv=450"}, /* each warpgroup skips other K/V tiles at the ends of the window */
    {ASYNC "mask=causal block_m=64 head_dim=8 block_n=16 stages=2 overlap=intra_warpgroup store=tma pack_gqa=1",
     "heads=6,kv_heads=2,len_q=100,len_kv=130"}, /* three heads per tile with 21 queries each: one row is unused */
    {ASYNC "mask=none block_m=64 head_dim=8 head_dim_v=136 block_n=16 stages=1 overlap=intra_warpgroup store=direct",
     "heads=3,len_q=150,len_kv=40"},
    {ASYNC "mask=causal block_m=128 head_dim=8 block_n=16 stages=2 overlap=intra_warpgroup store=direct layout=ragged",
     "batch=3,heads=3,len_q=300,len_kv=200"},
    {ASYNC BIAS " mask=causal block_m=128 head_dim=8 block_n=16 stages=2 overlap=off store=tma",
     "heads=2,len_q=200,len_kv=213"}, /* rows that cannot be copied in pieces */
    {ASYNC BIAS " mask=causal block_m=128 head_dim=8 block_n=16 stages=2 overlap=intra_warpgroup store=tma",
     "heads=2,len_q=200,len_kv=208"},
    {ASYNC BIAS
     " mask=\"q // 56 == k // 56 or k < 20\" block_m=128 head_dim=8 block_n=16 stages=2 overlap=intra_warpgroup "
     "store=direct rescale=lazy",
     "heads=2,len_q=150,len_kv=168"}, /* skips K/V tiles in between */
    {ASYNC "mask=\"q // 47 == k // 47\" block_m=64 head_dim=8 block_n=16 stages=1 overlap=off store=tma",
     "heads=1,len_q=100,len_kv=100"}, /* of one K/V tile, only the last one is seen */
    {MMA "mask=causal block_m=128 threads=128 head_dim=8 block_n=16 stages=3 q_in=q_registers",
     "heads=2,len_q=150,len_kv=160"},
    {MMA "mask=none block_m=64 threads=128 head_dim=8 block_n=16 stages=2", "heads=1,len_q=70,len_kv=150"},
    {MMA "mask=causal block_m=64 threads=128 head_dim=8 block_n=16 stages=1 q_in=q_registers",
     "heads=2,len_q=100,len_kv=130"},
    {MMA "mask=none block_m=64 threads=128 head_dim=9 block_n=16 stages=1",
     "heads=1,len_q=70,len_kv=70"}, /* odd rows */
    {MMA "mask=causal block_m=128 threads=128 head_dim=9 block_n=16 stages=2", "heads=2,len_q=150,len_kv=90"},
    {MMA BIAS " mask=causal block_m=128 threads=128 head_dim=8 block_n=16 stages=2 rescale=from_sum",
     "heads=2,len_q=150,len_kv=168"}, /* half a K/V tile at the end is copied in part */
    {MMA BIAS " mask=none block_m=64 threads=128 head_dim=8 block_n=16 stages=1 rescale=lazy",
     "heads=1,len_q=70,len_kv=150"},
    {TF32 "precision=tf32x3 mask=causal block_m=128 threads=128 head_dim=8 block_n=16 stages=2",
     "heads=2,len_q=150,len_kv=160"},
    {TF32 "precision=tf32 mask=none block_m=64 threads=128 head_dim=8 block_n=16 stages=1",
     "heads=1,len_q=70,len_kv=150"},
    {BACKWARD "mask=causal block_m=64 block_n=64 threads=128 head_dim=8 stages=2",
     "heads=2,kv_heads=1,len_q=150,len_kv=200"},
    {BACKWARD "mask=none block_m=64 block_n=64 threads=128 head_dim=8 stages=1", "heads=1,len_q=150,len_kv=150"},
    {DECODE "mask=causal block_m=16 threads=64 head_dim=8 block_n=16 stages=2",
     "batch=2,heads=6,kv_heads=2,len_q=3,len_kv=130"},
    {DECODE "mask=none block_m=32 threads=64 head_dim=72 head_dim_v=8 block_n=16 stages=3",
     "batch=3,heads=6,kv_heads=1,len_q=3,len_kv=150"}, /* Q in shared memory */
    {DECODE "mask=causal block_m=16 threads=64 head_dim=8 block_n=16 stages=2 layout=padded append=1 rope=interleaved",
     "batch=3,heads=6,kv_heads=2,len_q=3,len_kv=130"},
    {DECODE "mask=causal block_m=32 threads=64 head_dim=72 head_dim_v=8 block_n=16 stages=2 layout=padded append=1 "
            "rope=halves",
     "batch=1,heads=2,kv_heads=1,len_q=1,len_kv=9"}, /* Q in shared memory; blocks without a run */
    {DECODE "mask=none block_m=8 threads=64 head_dim=8 block_n=16 stages=2 layout=padded append=1",
     "batch=1,heads=2,kv_heads=1,len_q=1,len_kv=9"},
    {DECODE "mask=none block_m=8 threads=64 head_dim=8 block_n=16 stages=2 layout=padded append=1 batch_invariant=1",
     "batch=2,heads=2,kv_heads=1,len_q=2,len_kv=2100"}, /* sequences of fewer chunks than possible */
    {MMA_90 "mask=causal block_m=64 threads=128 head_dim=8 block_n=16 stages=2 splits=3",
     "heads=2,len_q=70,len_kv=150"},
    {DECODE_90 "mask=none block_m=8 threads=64 head_dim=8 block_n=16 stages=2",
     "batch=1,heads=4,kv_heads=1,len_q=1,len_kv=700"}, /* every Q tile in parts */
    {DECODE_90 "mask=none block_m=8 threads=64 head_dim=8 block_n=16 stages=2 layout=padded",
     "batch=3,heads=4,kv_heads=2,len_q=1,len_kv=300"},
    {BACKWARD_90 "mask=causal block_m=64 block_n=64 threads=128 head_dim=8 stages=1",
     "heads=2,kv_heads=1,len_q=100,len_kv=130"},
    {BACKWARD_90 "mask=causal block_m=64 block_n=64 threads=128 head_dim=32 stages=2",
     "heads=2,kv_heads=1,len_q=150,len_kv=150"},
    {BACKWARD "mask=none block_m=64 block_n=64 threads=256 head_dim=64 stages=1", "heads=1,len_q=150,len_kv=150"},
    {BACKWARD_90A "mask=none dropout=1 head_dim=8", "heads=2,kv_heads=1,len_q=260,len_kv=130"},
    {BACKWARD_90A "mask=none dropout=1 head_dim=256", "heads=3,len_q=130,len_kv=260"}, /* one stage of K, V and bits */
    {BACKWARD_90A "mask=causal head_dim=8 block_m=64",
     "heads=6,kv_heads=6,len_q=440,len_kv=440"}, /* items of 1 to 7 steps */
    {BACKWARD_90A "mask=causal head_dim=8 block_m=128", "heads=6,kv_heads=3,len_q=260,len_kv=500"},
    {BACKWARD_90A "mask=causal head_dim=104", "heads=6,kv_heads=6,len_q=300,len_kv=300"}, /* K is loaded before V */
    {BACKWARD_90A "mask=none head_dim=104 layout=ragged",
     "batch=3,heads=3,kv_heads=3,len_q=0,len_kv=300"}, /* no item has a step; V has a stage of its own */
    {BACKWARD_90A BIAS " mask=causal head_dim=8 wants=\"dq, dk, dv, d_values\"",
     "heads=6,kv_heads=3,len_q=260,len_kv=440"}, /* what the score adds to the last keys is not copied ahead */
    {BACKWARD_90A BIAS " mask=\"k <= q and q - k < 90\" head_dim=64 head_dim_v=136", "heads=1,len_q=300,len_kv=328"},
    {BACKWARD_90A "mask=\"k <= q and q - k < 90\" head_dim=8 score=\"s + t[q - k + 900]\" params=\"t: float[1800]\" "
                  "wants=\"dq, dk, dv, d_t\"",
     "heads=6,kv_heads=6,len_q=130,len_kv=600"}, /* some items have no steps */
    {BACKWARD_90A "mask=\"q // 47 == k // 47 or k < 9\" head_dim=8",
     "heads=2,len_q=2300,len_kv=260"}, /* tiles of an item are found 32 at a time; of the first item, more than these */
    {BACKWARD_90A "mask=none head_dim=72", "heads=1,len_q=1500,len_kv=100"},             /* one item in parts */
    {BACKWARD_90A "mask=causal head_dim=72", "heads=8,kv_heads=1,len_q=130,len_kv=130"}, /* both items in parts */
    {BACKWARD_90A "mask=causal head_dim=8 deterministic=1", "heads=4,kv_heads=2,len_q=300,len_kv=500"}, /* in order */
    {BACKWARD_90A "mask=causal head_dim=104 deterministic=1", "heads=4,kv_heads=2,len_q=300,len_kv=500"},
    {BACKWARD_90A "mask=causal head_dim=8 deterministic=1 block_m=64", "heads=4,kv_heads=2,len_q=300,len_kv=300"},
    {BACKWARD_90A "mask=causal head_dim=8 head_dim_v=104 deterministic=1",
     "heads=4,kv_heads=2,len_q=300,len_kv=500"}, /* one consumer multiplies dQ */
    {BACKWARD_90A "mask=none head_dim=8 head_dim_v=104", "heads=2,len_q=150,len_kv=300"},
    {BACKWARD_90A "mask=causal head_dim=8 dq_in=dq_registers", "heads=3,len_q=300,len_kv=300"},
    {BACKWARD_90A "mask=causal head_dim=136 block_n=128", "heads=3,len_q=260,len_kv=260"},
    {BACKWARD_90A "mask=none head_dim=256 dq_in=dq_registers",
     "heads=1,len_q=260,len_kv=130"}, /* one tile of dO for dK, three for dV */
    {BACKWARD_90A "mask=none head_dim=256 dq_in=dq_memory",
     "heads=4,kv_heads=2,len_q=130,len_kv=450"}, /* eight items, for one cluster */
    {BACKWARD_90A "mask=causal head_dim=256 deterministic=1", "heads=3,kv_heads=3,len_q=260,len_kv=330"},
    {BACKWARD_90A "mask=causal head_dim=136", "heads=5,kv_heads=5,len_q=260,len_kv=330"}, /* some items have no steps */
    {BACKWARD_90A "mask=none head_dim=136", "heads=1,len_q=1000,len_kv=90"},              /* one item in parts */
    {BACKWARD_90A "mask=causal head_dim=136 deterministic=1", "heads=4,kv_heads=2,len_q=300,len_kv=500"},
    {BACKWARD_90A "mask=causal head_dim=136 block_n=96 layout=ragged",
     "batch=2,heads=1,len_q=0,len_kv=5"}, /* no item has a step */
    {BACKWARD_90A "mask=none head_dim=8 deterministic=1 dropout=1", "heads=1,len_q=130,len_kv=200"},
    {BACKWARD_90A "mask=none head_dim=8 dq_in=dq_registers layout=ragged", "batch=3,heads=1,len_q=300,len_kv=130"},
    {BACKWARD_90A "mask=causal score=\"0.5 * s\" head_dim=8 head_dim_v=136", "heads=2,len_q=130,len_kv=130"},
    {MLA "mask=none",
     "batch=3,heads=50,kv_heads=1,len_q=1,len_kv=1050"}, /* odd and even numbers of K/V tiles in the parts */
    {MLA "mask=causal layout=padded page_size=16", "batch=3,heads=10,kv_heads=1,len_q=2,len_kv=300"},
};
enum { VARIANTS = sizeof variants / sizeof *variants };

/* Seeds for schedules with 2 and 3 multiprocessors; 3, 4 and 23 hold warps back (docs/host-device.md). */
static const int seeds_fast[] = {4, 8, 3, 23, 13}, seeds_race[] = {8, 3};
enum {
    SEEDS_FAST = sizeof seeds_fast / sizeof *seeds_fast,
    SEEDS_RACE = sizeof seeds_race / sizeof *seeds_race,
};

/* Replaces `text` by `instead`; null = removes the call that starts there. */
static const struct mutation {
    const char *text, *instead;
} mutations[] = {
    {"copy_async_commit(", NULL},
    {"copy_async_wait(", NULL},
    {"copy_async_wait_groups<", NULL},
    {"copy_async_wait_groups<STAGES - 2>", "copy_async_wait_groups<STAGES - 1>"},
    {"stage + 1 < STAGES", "stage + 1 < STAGES - 1"},
    {"free = stage;", "free = free;"},
    {"to + 1 < STAGES", "to + 1 < STAGES - 1"}, /* stages of a warp */
    {"stages_free = 1;", "stages_free = 2;"},
    {"stage < STAGES - 1", "stage < STAGES - 2"},
    {"move_rows<", NULL}, /* of rows that begin between words */
    {"index + 1 < WIDTH", "index < 0"},
    {"mma_tf32(", NULL}, /* products in parts */
    {"a.large, b.small[first]", "a.large, b.large[first]"},
    {"+= sum[r][i]", "= sum[r][i]"},
    {"v.beyond(odd", "v.beyond(even"},
    {"i % 4 / 2 + i % 2 * 2", "i % 4"},
    {"grid_dependency_wait(", NULL},
    {"grid_dependency_begun(", NULL},
    {"barrier_init(", NULL},
    {"barrier_init_fence(", NULL},
    {"barrier_arrive(", NULL},
    {"barrier_expect(", NULL},
    {"barrier_arrive_copied(", NULL},
    {"barrier_wait(", NULL},
    {" release(&", NULL},
    {"release_keys(&", NULL},
    {"release_by_warps(&", NULL},
    {" release_queries(", NULL},
    {"c.release_queries(", NULL},
    {" release_d_o(", NULL},
    {" await_weights(", NULL},
    {" await_d_s(", NULL},
    {" await_warps(", NULL},
    {"1 + 4 + 1);", "1 + 4);"}, /* arrivals of roles */
    {"shared.dq_part[index] = part;", ";"},
    {"tile + consumer", "tile"},
    {"HEAD_DIM * 64", "HEAD_DIM * 32"},
    {"release_keys(empty)", NULL},
    {" release_keys(", NULL},
    {"barrier_arrive_at(", NULL},
    {"copy_to_block(", NULL},
    {" share(", NULL},
    {"sync_blocks(", NULL},
    {"cluster_rank() ^ 1)", "cluster_rank())"},
    {"3, panel", "1 << cluster_rank(), panel"},
    {"cluster_arrive(", NULL},
    {"cluster_wait(", NULL},
    {"threadIdx.x % 32);", "cluster_rank());"},
    {"(1 << CLUSTER) - 1", "1 << cluster_rank()"},
    {"to[first]", "to[0]"},
    {"key + first", "key"},
    {"__syncthreads(", NULL},
    {"__syncwarp(", NULL},
    {"named_barrier_sync(", NULL},
    {"named_barrier_arrive(", NULL},
    {"registers_release<", NULL},
    {"fence_async(", NULL},
    {"tma_store_commit(", NULL},
    {"tma_store_wait_read(", NULL},
    {"wgmma_fence(", NULL},
    {"wgmma_commit(", NULL},
    {"wgmma_wait<", NULL},
    {"wgmma_wait<0>", "wgmma_wait<1>"},
    {"wgmma_wait<1>", "wgmma_wait<2>"},
    {"parity() ^ 1", "parity()"},
    {"parity())", "parity() ^ 1)"},
    {"* 128);", "* 64);"}, /* bytes */
    {"* 128);", "* 256);"},
    {"], 1);", "], 2);"}, /* arrivals */
    {"], 32);", "], 31);"},
    {"], 4);", "], 3);"},
    {"weights_full, 4);", "weights_full, 3);"},
    {"d_s_full, 4);", "d_s_full, 3);"},
    {"d_s_empty, 1);", "d_s_empty, 2);"},
    {"other_empty, 1);", "other_empty, 2);"},
    {"READERS + 4);", "READERS + 3);"},
    {"], READERS);", "], READERS - 1);"},
    {"CONSUMERS);", "CONSUMERS + 1);"},
    {"CONSUMERS);", "CONSUMERS - 1);"},
    {"CONSUMERS + 1);", "CONSUMERS);"},
    {"ADDERS);", "ADDERS + 1);"},
    {"ADDERS);", "ADDERS - 1);"},
    {" + 32);", " + 31);"},
    {"d_s_empty[1]);", "d_s_empty[0]);"},       /* before the first tile */
    {"shared_tiles(c) % 2 == c.index", "true"}, /* whose turn it is */
    {"buffer * DQ_LATE", "buffer"},
    {"_READERS);", "_READERS + 1);"},
    {"_READERS);", "_READERS - 1);"},
    {"keys(0)", "keys(1)"}, /* stages */
    {"keys(1)", "keys(0)"},
    {", c.step++)", ")"},
    {"c.step++;", ";"},
    {"c.step++, ", ""},
    {"queries.count++", "queries.count"},
    {"ring.count++", "ring.count"},
    {"bias_done(", NULL}, /* what a score adds */
    {" fill_bias(", NULL},
    {" copy_bias(copies.p", NULL},
    {"atomic_add_acq_rel(", "atomicAdd("}, /* what it publishes */
    {"add_release(", NULL},
    {"STEP_M / CONSUMERS * consumer", "0 * STEP_M / CONSUMERS * consumer"},
    {"part.before", "0"}, /* the order of additions */
    {"place.before", "0"},
    {"> p.len_kv)", "> p.len_kv + BLOCK_N)"},
    {"(ring + Q_STAGES)", "(ring + 1)"}, /* whose O leaves */
    {"empty == Q_STAGES", "empty == 1"},
    {"values(-1)", "values(0)"},
    {"c.walk.left == tiles", "true"}, /* the first of them */
    {"c.walk.left == tiles", "false"},
    {"if (walk.left == 0)", "if (false)"},        /* the last S of these queries */
    {"c.unseen >= STAGES", "c.unseen < -STAGES"}, /* the border */
    {"tiles_after(c.p, c.unit.tile, c.unit.index, c.walk)", "0"},
    {"queue.item += workers()", "queue.item += 1"},
    {"item += step", "item += 1"},
    {"!queue.second && heavy != light", "false"},
    {"2 * (workers() - place) - 1", "workers() - place"}, /* single tiles, the second round backwards */
    {"paired + item % heads", "item % heads"},
    {"(tiles_of_head(p) + 1) / 2", "tiles_of_head(p) / 2"},
    {"queries_of_unit(p) * heads_of_tile(p)", "queries_of_unit(p)"}, /* heads packed into a tile */
    {"head < heads_of_tile(p)", "true"},
    {"tile.head + head", "tile.head"},
    {"(index - batch * sets) * heads_of_tile(p)", "index - batch * sets"},
    {"keys.end) - 1", "keys.end) - 2"}, /* the last key of a tile */
    {"row < before", "true"},           /* new tokens: read where they are written */
    {"append_tokens(all)", "void()"},
    {"rotate_new_keys(", NULL},
    {"rotate_queries(", NULL},
};
enum { MUTATIONS = sizeof mutations / sizeof *mutations, LINES = 1000 };

struct lines {
    const char *file; /* below templates/ */
    char text[LINES][256];
    int count;
};

/* True for mutants that nothing need notice: what the hardware does not need, with the reason why it is there all the
   same, and what makes no difference here. */
static bool may_be_left_out(const struct mutation *mutation, const struct lines *lines, int at) {
    const char *line = lines->text[at], *before = lines->text[at ? at - 1 : 0], *after = lines->text[at + 1];
    if (strstr(before, "0x80008000"))
        return true; /* the data here never get there, those of test_flash_async do */
    if (strstr(line, "await_bias(score, p, shared) ||"))
        return true; /* rows with gaps between them, in test_masks */
    if (strstr(line, "// the compiler wants it"))
        return true;
    if (strstr(line, "c.enter_step(); c.ring.count++") || strstr(line, "step().first >= 0; ring.count++") ||
        strstr(line, "for (Ring<1> ring"))
        return true; /* the loop would never end */
    bool before_d_o = strstr(before, "(DK && DV)") || strstr(after, "wgmma_settle(c.dv[0]);");
    bool second_operand = strstr(line, "d_o_empty[stage_d_o]") || strstr(line, "v_empty[stage_v]");
    if ((second_operand && !mutation->instead) || (before_d_o && strstr(line, "wgmma_wait<1>")))
        return true; /* here dO (or V) has as many stages as Q (or K), is released before it, and loaded after it */
    bool roles = strncmp(lines->file, "backward/role_of", 16) == 0;
    if ((strstr(line, "            await_weights();") && strstr(after, "await_queries(1)")) ||
        (roles && strstr(line, "await_d_s();") && strstr(after, "add_dk();") && strstr(before, "of stale dO")))
        return true; /* here a product begins when all warps ask for it; there it reads what four warps stored */
    if (roles && strstr(line, "d_s_empty[d_s_stage()], tile()"))
        return true; /* P of this tile came only after the third consumer was done with that place */
    if (strcmp(lines->file, "backward/panel_sums.cuh") == 0 && strstr(line, "await_warps();") && !strstr(line, "//"))
        return true; /* for sums that are not finite, which test_backward_nonfinite has */
    if (strcmp(lines->file, "backward/role_steps.cuh") == 0 && strstr(line, "wgmma_fence();") &&
        strstr(before, "add_dk()"))
        return true; /* the compiler inserts it otherwise, and says so */
    if (strstr(line, "nan_") || strstr(line, "// dV is complete"))
        return true; /* for a NaN in the inputs, which test_backward_nonfinite has */
    if (strstr(line, "// the warp has read its 16 rows"))
        return true; /* storing matrices brings the warp together; whether that orders anything is not documented */
    if (strstr(line, "// products need whole warps"))
        return true; /* here each lane asks for its product alone */
    if (strcmp(lines->file, "backward/keys_by_cluster.cuh") == 0 && strstr(line, "barrier_init_fence"))
        return true; /* the fence before an item is copied publishes the barriers, too */
    bool in_cluster = strcmp(lines->file, "backward/steps_in_cluster.cuh") == 0;
    if (in_cluster && strstr(line, "wgmma_commit();"))
        return true; /* the group of the next product would have these, too */
    if (in_cluster && strstr(line, "__syncwarp();"))
        return true; /* here a fence publishes what all lanes did before it; there what its own lane did */
    if (strcmp(lines->file, "backward/keep_order.cuh") == 0 && strstr(line, "order.added"))
        return true; /* only the order of additions depends on it */
    if (strstr(line, "keys_empty[before.stage()]"))
        return true; /* when a block takes its next item; long items only */
    if (strstr(line, "q_empty[queries.stage()][consumer]") && !mutation->instead)
        return true;       /* only for the pace: the next iteration waits for the same */
    if (mutation->instead) /* K is loaded in order; released in order too, under the next one's name, it is as safe */
        return strstr(mutation->text, "keys(0)") && strstr(line, "scores_done(") && strstr(before, "wgmma_wait<0>");
    bool second_fence = strstr(line, "wgmma_fence();") && strstr(before, "v_full");
    bool q_was_read = strstr(line, "named_barrier_sync(") && strstr(line, "read Q");
    bool whole_warp = strstr(line, "__syncwarp();") && strstr(after, "cluster_arrive();");
    bool fenced = strstr(line, "__syncwarp();") && strstr(after, "elect_one()") &&
                  (strstr(before, "fence_async();") || strcmp(lines->file, "load/bias_rows.cuh") == 0 ||
                   strcmp(lines->file, "backward/help_with_items.cuh") == 0);
    bool own_rows = strstr(line, "named_barrier_sync(") && strstr(before, "fence_async();");
    return second_fence  /* the compiler inserts it otherwise, and says so */
           || q_was_read /* products end for all four warps at once; not documented */
           || whole_warp /* cluster barriers need all threads of a warp together; here each arrives alone */
           || fenced     /* elect_one also brings the warp together; whether that orders anything is not documented */
           || own_rows /* here a product begins when all warps ask for it; there it needs a warp's own rows */;
}

static void read_template(struct lines *lines, const char *name) {
    char path[512];
    snprintf(path, sizeof path, SOURCE_DIR "/templates/%s", name);
    FILE *file = fopen(path, "r");
    cr_assert(file, "%s", path);
    lines->file = name;
    lines->count = 0;
    while (lines->count < LINES && fgets(lines->text[lines->count], sizeof *lines->text, file))
        lines->count++;
    cr_assert(feof(file), "longer than %d lines", LINES);
    fclose(file);
}

/* Writes the template with line `at` replaced; a negative `at` replaces none. */
static void write_template(const char *folder, const struct lines *lines, int at, const char *replacement) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, lines->file);
    FILE *file = fopen(path, "w");
    cr_assert(file, "%s", path);
    for (int i = 0; i < lines->count; i++)
        fputs(i == at ? replacement : lines->text[i], file);
    cr_assert_eq(fclose(file), 0);
}

/* Writes the mutated line to `mutant`. False when the line has no such text, or only defines the function. */
static bool mutate(const char *line, const struct mutation *mutation, char *mutant, size_t size) {
    const char *at = strstr(line, mutation->text);
    bool is_word = isalpha((unsigned char)*mutation->text) || *mutation->text == '_';
    bool within_word = at && at > line && is_word && (at[-1] == '_' || islower((unsigned char)at[-1]));
    bool directive = strncmp(line + strspn(line, " "), "//$", 3) == 0; /* after text it is a condition, which stays */
    if (!at || within_word || strstr(line, "__device__") || directive)
        return false;
    const char *rest = mutation->instead ? at + strlen(mutation->text) : strchr(at, ';');
    cr_assert(rest, "a call over two lines: %s", line);
    if (mutation->instead)
        snprintf(mutant, size, "%.*s%s%s", (int)(at - line), line, mutation->instead, rest);
    else /* the call's operands must still be read: a template names them */
        snprintf(mutant, size, "%.*swhile (false) %s", (int)(at - line), line, at);
    return true;
}

static int run(const char *command, struct text *output) {
    char line[512];
    *output = (struct text){0};
    FILE *pipe = popen(command, "r");
    while (pipe && fgets(line, sizeof line, pipe))
        text_print(output, "%s", line);
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool emitted(const char *folder, int variant, struct text *source) {
    char command[1024];
    snprintf(command, sizeof command, "%s show '%s' --templates %s 2>&1", ATTILE, variants[variant].knobs, folder);
    return run(command, source) == 0;
}

/* Returns the exit status: 0 = right and without complaint, 1 = wrong, 5 = refused, DIED = wrote where it must not,
   LOST = used an invalid address, ENDLESS = repeats a step for ever. Any other status means that the test itself is
   broken. */
enum { DIED = 134 /* SIGABRT */, LOST = 139 /* SIGSEGV */, ENDLESS = 124 /* timeout */ };
static int run_kernel(const char *folder, int variant, bool race, int seed, struct text *output) {
    char command[1024];
    snprintf(command, sizeof command,
             "TSAN_OPTIONS=exitcode=0 timeout 100 %s run '%s' --templates %s --shape %s --device host "
             "--host-mode %s --host-seed %d --no-nvrtc --cache-dir %s/cache 2>&1",
             race ? ATTILE_RACE : ATTILE, variants[variant].knobs, folder, variants[variant].shape,
             race ? "race" : "fast", seed, folder);
    return run(command, output);
}

/* Gradients that are not finite are computed a second time, which would repair what a mutant spoils. The data here are
   finite, so this disables the repetition. */
static void repair_nothing(const char *folder) {
    static struct lines lines;
    const char *name = "backward/repeat_rows.cuh", *text = "return __any_sync(0xffffffffu, !(fabsf(all) < INFINITY));";
    int at = 0;
    read_template(&lines, name);
    while (at < lines.count && !strstr(lines.text[at], text))
        at++;
    cr_assert_lt(at, lines.count, "%s has no line \"%s\"", name, text);
    write_template(folder, &lines, at, "    return false;\n");
}

static void check_intact(const char *folder, int variant) {
    for (int i = 0; i < SEEDS_FAST + SEEDS_RACE; i++) {
        struct text output;
        bool race = i >= SEEDS_FAST;
        int seed = race ? seeds_race[i - SEEDS_FAST] : seeds_fast[i];
        cr_expect_eq(run_kernel(folder, variant, race, seed, &output), 0, "%s, seed %d: %s", variants[variant].knobs,
                     seed, text_string(&output));
        text_free(&output);
    }
}

static bool is_noticed(const char *folder, const bool differs[VARIANTS], bool race, const char *name) {
    int status = 0;
    for (int i = 0; status == 0 && i < (race ? SEEDS_RACE : SEEDS_FAST); i++)
        for (int v = 0; status == 0 && v < VARIANTS; v++)
            if (differs[v]) {
                struct text output;
                status = run_kernel(folder, v, race, race ? seeds_race[i] : seeds_fast[i], &output);
                cr_expect(status == 0 || status == 1 || status == 5 || status == DIED || status == LOST ||
                              status == ENDLESS,
                          "%s: exit status %d: %s", name, status, text_string(&output));
                text_free(&output);
            }
    return status != 0;
}

/* True if this run mutates line `number`. */
static bool has_turn(int number) {
    enum { SHARDS = 32 };
    return part_has(number) && shard_has(number, SHARDS);
}

/* Returns the number of mutants. intact: the sources of all variants. */
static int check_mutants(const char *folder, const struct lines *lines, const struct text *intact) {
    char mutant[512], name[640];
    int mutants = 0;
    struct text source;
    for (int at = 0; at < lines->count; at++)
        for (int m = 0; has_turn(at) && m < MUTATIONS; m++) {
            const char *line = lines->text[at];
            bool differs[VARIANTS], differ = false;
            if (!mutate(line, &mutations[m], mutant, sizeof mutant) || may_be_left_out(&mutations[m], lines, at))
                continue;
            write_template(folder, lines, at, mutant);
            for (int v = 0; v < VARIANTS; v++) {
                cr_assert(emitted(folder, v, &source), "%s", text_string(&source));
                differ |= differs[v] = strcmp(text_string(&source), text_string(&intact[v])) != 0;
                text_free(&source);
            }
            mutants++;
            snprintf(name, sizeof name, "%s, line %d: %s", lines->file, at + 1, mutant);
            cr_expect(differ, "no variant has %s", name);
            bool orders =
                strstr(mutations[m].text, "fence") || strstr(mutations[m].text, "sync"); /* race mode knows first */
            cr_expect(is_noticed(folder, differs, orders, name) || is_noticed(folder, differs, !orders, name),
                      "not noticed: %s", name);
        }
    write_template(folder, lines, -1, "");
    return mutants;
}

Test(mutation, each_is_of_something) {
    static struct lines lines;
    char mutant[512];
    bool used[MUTATIONS] = {false};
    if (part_number() != 1)
        cr_skip_test("the first part does it");
    for (int i = 0; i < FILES; i++) {
        read_template(&lines, files[i]);
        for (int at = 0; at < lines.count; at++)
            for (int m = 0; m < MUTATIONS; m++)
                used[m] |= mutate(lines.text[at], &mutations[m], mutant, sizeof mutant);
    }
    for (int m = 0; m < MUTATIONS; m++)
        cr_expect(used[m], "no template has %s", mutations[m].text);
}

/* Writes the marker of a line that some mutation changes. */
static void mark(char *marker, size_t size, int file, int at) { snprintf(marker, size, "/*line %d of %d*/", at, file); }

static bool has_mutant(const struct lines *lines, int at) {
    char mutant[512];
    for (int m = 0; m < MUTATIONS; m++)
        if (mutate(lines->text[at], &mutations[m], mutant, sizeof mutant) && !may_be_left_out(&mutations[m], lines, at))
            return true;
    return false;
}

/* Copies the template with a marker in each line that has a mutant. */
static void write_marked(const char *folder, const struct lines *lines, int number) {
    char path[512], marker[64];
    snprintf(path, sizeof path, "%s/%s", folder, lines->file);
    FILE *file = fopen(path, "w");
    cr_assert(file, "%s", path);
    for (int at = 0; at < lines->count; at++) {
        const char *line = lines->text[at];
        int indent = (int)strspn(line, " ");
        mark(marker, sizeof marker, number, at);
        fprintf(file, "%.*s%s%s", indent, line, has_mutant(lines, at) ? marker : "", line + indent);
    }
    cr_assert_eq(fclose(file), 0);
}

/* A share of the mutants runs each time; this looks at all of them. */
Test(mutation, each_is_in_a_variant) {
    static struct lines lines;
    static struct text sources[VARIANTS];
    char folder[] = "/tmp/attile-marked-XXXXXX", command[512], marker[64];
    if (part_number() != 1)
        cr_skip_test("the first part does it");
    if (!ATTILE[0])
        cr_skip_test("without the command");
    cr_assert(mkdtemp(folder));
    snprintf(command, sizeof command, "cp -r %s/templates/. %s", SOURCE_DIR, folder);
    cr_assert_eq(system(command), 0);
    for (int i = 0; i < FILES; i++) {
        read_template(&lines, files[i]);
        write_marked(folder, &lines, i);
    }
    for (int v = 0; v < VARIANTS; v++)
        cr_assert(emitted(folder, v, &sources[v]), "%s", text_string(&sources[v]));
    for (int i = 0; i < FILES; i++) {
        read_template(&lines, files[i]);
        for (int at = 0; at < lines.count; at++) {
            bool any = !has_mutant(&lines, at);
            mark(marker, sizeof marker, i, at);
            for (int v = 0; !any && v < VARIANTS; v++)
                any = strstr(text_string(&sources[v]), marker);
            cr_expect(any, "no variant has %s, line %d: %s", lines.file, at + 1, lines.text[at]);
        }
    }
    for (int v = 0; v < VARIANTS; v++)
        text_free(&sources[v]);
    snprintf(command, sizeof command, "rm -r %s", folder);
    cr_expect_eq(system(command), 0);
}

Test(mutation, nothing_can_be_left_out) {
    bool any = false;
    for (int at = 0; !any && at < LINES; at++)
        any = has_turn(at);
    if (!ATTILE_RACE[0])
        cr_skip_test("one program cannot have two sanitizers");
    if (!any)
        cr_skip_test("no line of this share is this part's");
    static struct lines lines;
    static struct text intact[VARIANTS];
    char folder[] = "/tmp/attile-mutation-XXXXXX", command[512];
    int mutants = 0;
    cr_assert(mkdtemp(folder));
    snprintf(command, sizeof command, "cp -r %s/templates/. %s", SOURCE_DIR, folder);
    cr_assert_eq(system(command), 0);
    repair_nothing(folder);
    for (int v = 0; v < VARIANTS; v++)
        if (part_has(v))
            check_intact(folder, v);
    for (int v = 0; v < VARIANTS; v++)
        cr_assert(emitted(folder, v, &intact[v]), "%s", text_string(&intact[v]));
    for (int i = 0; i < FILES; i++) {
        read_template(&lines, files[i]);
        mutants += check_mutants(folder, &lines, intact);
    }
    for (int v = 0; v < VARIANTS; v++)
        text_free(&intact[v]);
    cr_expect_gt(mutants, 0);
    fprintf(stderr, "%d mutants\n", mutants);
    snprintf(command, sizeof command, "rm -r %s", folder);
    cr_expect_eq(system(command), 0);
}
