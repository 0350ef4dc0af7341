// The gradients of attention on Hopper, warp-specialised: in each block one warp loads tiles by TMA, STAGES steps ahead of their use, and
// consumers, warpgroups of 64 rows each, multiply them by wgmma.
// Three more warps draw which pairs are dropped. //$ if dropout == 1
//
//     dK, dV    a block keeps BLOCK_N keys and walks over STEP_M queries at a time, of all heads that share the keys
//               S^T = K Q^T,  dP^T = V dO^T,  dV += P^T dO,  dK += dS^T Q
//               Keys are rows, so that P^T and dS^T are operands in the registers where they come to be. S^T of the next step is
//               multiplied behind dK of this one, and nothing is in flight where the loop closes.
//$ let dq_added = deterministic == 0 and head_dim <= 128 and head_dim + head_dim_v <= 256
//$ if dq_added
//     dQ        dQ = dS K in the same loop, of dS of all consumers, through shared memory. It is multiplied one step late, so that no
//               consumer waits for another, and added in fp32 to sums in the workspace, which a last launch rounds.
//$ else
//     dQ        a block keeps BLOCK_M queries and walks over STEP_N keys at a time: S = Q K^T,  dP = dO V^T,  dQ += dS K
//$ end
//$ require target == sm_90a
//$ require dtype != fp32
//$ require wants == inputs
//$ require head_dim % 8 == 0 and head_dim_v % 8 == 0
//$ require head_dim <= 256 and head_dim_v <= 256
//$ let bfloat16 = dtype == bf16
//$ let step_m = 64
//$ default block_n = 128
//$ default stages = 2
//$ if dq_added
//$ default block_m = 64
//$ default overlap = both
//$ let step_n = 64
//$ require block_m == 64
//$ else
//$ default block_m = 128
//$ default overlap = intra_warpgroup
//$ let step_n = 128 if head_dim <= 128 and head_dim_v <= 128 and score != custom_score else 64
//$ require block_m == 128
//$ end
//$ tune target in [sm_90a]
//$ tune block_m in [64, 128]
//$ tune block_n in [128]
//$ tune stages in [2]
//$ tune overlap in [intra_warpgroup, both]
//$ require block_n == 128
//$ require stages == 2
//$ require overlap in [intra_warpgroup, both]
//$ let pingpong_schedule = overlap == both
//$ note Accumulators of dK beside those of dV take up to 128 registers of a thread. With more of them there are two launches.
//$ let apart = head_dim + head_dim_v > 256
//$ let consumers = 2
//$ let panels = (head_dim + 63) / 64
//$ let panels_v = (head_dim_v + 63) / 64
//$ if dq_added
//$ note Each consumer multiplies its part of the columns of dQ; a part is within a panel.
//$ let dq_columns = 32 * panels
//$ let dq_width = 2 * dq_columns
//$ let gradient_bytes = 2 * block_n * 128
//$ else
//$ let dq_columns = 0
//$ let dq_width = 0
//$ let gradient_bytes = 0
//$ end
//$ note What a score holds leaves no room for dQ beside it where rows are long.
//$ let dq_first = dq_added and score == custom_score and head_dim + head_dim_v > 128
//$ let block_threads = 128 * (consumers + 1)
//$ note The producer judges tiles; where bounds of tensors tell which are seen, it takes more registers.
//$ if mask_tables > 0
//$ let producer_registers = 40
//$ let consumer_registers = 232
//$ else
//$ let producer_registers = 24
//$ let consumer_registers = 240
//$ end
//$ let key_bytes = block_n * 128 * (panels + panels_v)
//$ let kept_bytes = step_m * block_n / 8 if dropout == 1 else 0
//$ let step_bytes = step_m * (128 * panels + 8) + kept_bytes + 48
//$ let d_o_bytes = step_m * 128 * panels_v + 16
//$ note dO is in use for less of a step than Q: where two tiles of it are too many, one will do.
//$ let d_o_stages = 2 if key_bytes + gradient_bytes + 2 * (step_bytes + d_o_bytes) + 64 <= target_shared_bytes else 1
//$ let shared_keys = (key_bytes + gradient_bytes + stages * step_bytes + d_o_stages * d_o_bytes + 64 + 1023) / 1024 * 1024
//$ note Sequences with lengths of their own: a block works on one of them.
//$ include "backward/$layout.cuh"
//$ include "expression/tables_launch.cuh" if mask_tables > 0
//$ include "backward/row_statistics_launch.cuh"
//$ include "backward/d_sinks_launch.cuh" if sinks > 0
//$ if apart
//$ launch attention_dv grid batch * kv_heads * ((len_kv + block_n - 1) / block_n) block block_threads shared shared_keys dependent
//$ launch attention_dk grid batch * kv_heads * ((len_kv + block_n - 1) / block_n) block block_threads shared shared_keys dependent
//$ elif dq_added
//$ launch attention_dk_dv_dq grid batch * kv_heads * ((len_kv + block_n - 1) / block_n) block block_threads shared shared_keys dependent
//$ include "backward/round_dq_launch.cuh"
//$ else
//$ launch attention_dk_dv grid batch * kv_heads * ((len_kv + block_n - 1) / block_n) block block_threads shared shared_keys dependent
//$ end
//$ if layout == ragged
//$ workspace 4 * heads * ((packed_rows / 64 + batch) * 64) * (2 + dq_width)
//$ else
//$ workspace 4 * batch * heads * ((len_q + 63) / 64 * 64) * (2 + dq_width)
//$ end
//$ tensor_map q rows 64 cols 64
//$ tensor_map k rows 64 cols 64
//$ tensor_map v rows 64 cols 64
//$ tensor_map d_o rows 64 cols 64
//$ include "params/attention_backward_tma.h"
//$ include "target/sm_90a_copies.cuh"
//$ include "target/sm_90.cuh"
//$ include "pipeline/ring.cuh"
//$ include "pipeline/release.cuh"
//$ include "backward/unit_products.cuh"
//$ include "backward/own_sequence.cuh"
//$ include "backward/weigh_keys.cuh"
//$ include "backward/other_tiles.cuh"
//$ include "backward/repeat_keys.cuh"
//$ include "backward/store_rows.cuh"

// A tile of 16-bit elements is stored in panels of 64 columns: [panel][row][64], 128 bytes a row, swizzled by TMA.
template <int PANELS_OF, int ROWS> using Panels = unsigned short[PANELS_OF][ROWS][64];

// A tile of the other side, as the producer found it.
struct Step {
    int first; // its first query or key; negative behind the last step
    int whole; // does every query see every key?
    //$ if dq_added
    int sums, late_sums; // which tile of dQ it is, or the last one was; the same of the tile two steps before
    //$ end
    Where where; //$ if mask == custom_mask or score == custom_score
};

// --- dK and dV: keys down, queries across

struct alignas(1024) SharedKeys {
    Panels<PANELS, 64> k[CONSUMERS];
    Panels<PANELS_V, 64> v[CONSUMERS];
    Panels<PANELS, STEP_M> q[STAGES];
    Panels<PANELS_V, STEP_M> d_o[D_O_STAGES];
    Panels<1, 64> d_s[2][CONSUMERS]; // dS^T, (keys, queries) //$ if dq_added
    alignas(16) float lse2[STAGES][STEP_M], dot[STAGES][STEP_M]; // in the order of row_place()
    unsigned short kept[STAGES][CONSUMERS][128][STEP_M / 32]; // of each thread of a consumer //$ if dropout == 1
    Step step[STAGES];
    Barrier keys_full, q_full[STAGES], q_empty[STAGES], d_o_full[D_O_STAGES], d_o_empty[D_O_STAGES];
    Barrier d_s_full[2], d_s_empty[2]; //$ if dq_added
    Sequence sequence; //$ if layout != dense
};
static_assert(sizeof(SharedKeys) == SHARED_KEYS, "as in the launch directive");

//$ include "backward/produce_queries.cuh"
//$ include "backward/draw_queries.cuh" if dropout == 1
//$ include "backward/consume_queries.cuh"

// Called by one thread of the block.
__device__ __forceinline__ void init_barriers(SharedKeys &shared) {
    barrier_init(&shared.keys_full, 1);
    for (int stage = 0; stage < STAGES; stage++) {
        //$ if dropout == 1
        barrier_init(&shared.q_full[stage], 1 + 32 + DRAWERS); // the bytes of Q, the lanes that copy statistics, warps that draw
        //$ else
        barrier_init(&shared.q_full[stage], 1 + 32); // the bytes of Q, the lanes that copy statistics
        //$ end
        barrier_init(&shared.q_empty[stage], CONSUMERS);
    }
    for (int stage = 0; stage < D_O_STAGES; stage++) {
        barrier_init(&shared.d_o_full[stage], 1);
        barrier_init(&shared.d_o_empty[stage], CONSUMERS);
    }
    //$ if dq_added
    for (int buffer = 0; buffer < 2; buffer++) {
        barrier_init(&shared.d_s_full[buffer], 4 * CONSUMERS); // warps
        barrier_init(&shared.d_s_empty[buffer], CONSUMERS);
    }
    //$ end
    barrier_init_fence();
}

// The block's keys: dK, dV, or both.
template <bool DK, bool DV> __device__ __forceinline__ void go_over_queries(const attention_backward_tma_params &params) {
    SharedKeys &shared = *dynamic_shared<SharedKeys>();
    const attention_params &all = params.backward.forward;
    const int tiles = (all.len_kv + BLOCK_N - 1) / BLOCK_N;
    // the first keys are seen by most queries where a mask is causal: they begin first
    const int key0 = static_cast<int>(blockIdx.x) % tiles * BLOCK_N, kv_index = static_cast<int>(blockIdx.x) / tiles;
    if (warp_index() == 0 && elect_one())
        init_barriers(shared);
    grid_dependency_wait();
    launch_dependents();
    //$ if layout != dense
    const attention_params own = sequence_of(all, kv_index / all.kv_heads);
    if (key0 >= own.len_kv)
        return;
    if (threadIdx.x == 0)
        shared.sequence = numbers_of(own);
    //$ end
    __syncthreads();
    if (warpgroup_index() == 0) {
        registers_release<PRODUCER_REGISTERS>();
        if (warp_index() == 0)
            produce_queries(params, shared, kv_index, key0);
        //$ if dropout == 1
        else
            draw_queries(all, shared, kv_index, key0, warp_index() - 1);
        //$ end
    } else {
        registers_acquire<CONSUMER_REGISTERS>();
        KeysConsumer<DK, DV> consumer(params.backward, shared, warpgroup_index() - 1, key0);
        consumer.run();
        consumer.store(kv_index);
    }
}

//$ if apart
extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 1)
    attention_dv(const __grid_constant__ attention_backward_tma_params params) {
    go_over_queries<false, true>(params);
}

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 1)
    attention_dk(const __grid_constant__ attention_backward_tma_params params) {
    go_over_queries<true, false>(params);
}
//$ elif dq_added
extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 1)
    attention_dk_dv_dq(const __grid_constant__ attention_backward_tma_params params) {
    go_over_queries<true, true>(params);
}
//$ else
extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 1)
    attention_dk_dv(const __grid_constant__ attention_backward_tma_params params) {
    go_over_queries<true, true>(params);
}
//$ end
//$ include "backward/dq_unit_launch.cuh" if not dq_added
