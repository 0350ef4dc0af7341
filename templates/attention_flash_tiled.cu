// Tiled attention with Q on chip: a block keeps BLOCK_M queries and iterates over the keys, BLOCK_N at a time.
//
//     for each K/V tile          S = scale Q K^T                      (BLOCK_M, BLOCK_N), in registers
//                                m' = max(m, row maxima of S)
//                                P = e^(S - m')                       (BLOCK_M, BLOCK_N)
//                                l = e^(m - m') l + row sums of P
//                                O = e^(m - m') O + P V               (BLOCK_M, HEAD_DIM_V), in registers
//$ if dropout == 1
//     O = O / (l (1 - dropout_p)),  LSE = m + ln l
//
// Dropout sets some elements of P to 0, after the row sums.
//$ else
//     O = O / l,  LSE = m + ln l
//$ end
//$ require max(head_dim, head_dim_v) <= 256
//$ defaults "attention_flash_tiled.yaml"
//$ tune target in [any, sm_80]
//$ tune block_m in [16, 32, 64, 128, 256]
//$ tune block_n in [16, 32, 64, 128]
//$ tune thread_m in [1, 2, 4, 8]
//$ tune thread_n in [4, 8, 16]
//$ require block_n % thread_n == 0 and thread_n % 4 == 0
//$ let lanes_n = block_n / thread_n
//$ require lanes_n in [4, 8, 16]
//$ let lanes_m = 32 / lanes_n
//$ let warp_rows = lanes_m * thread_m
//$ require block_m % warp_rows == 0
//$ default threads = block_m / warp_rows * 32
//$ require threads == block_m / warp_rows * 32
//$ let chunks = (head_dim + 3) / 4
//$ let pitch = chunks / 2 * 2 + 1
//$ let thread_v = (head_dim_v + 4 * lanes_n - 1) / (4 * lanes_n)
//$ let v_pitch = thread_v * lanes_n
//$ let p_pitch = lanes_n + 4
//$ let kv_pitch = pitch + v_pitch if target != any else pitch if pitch > v_pitch else v_pitch
//$ let shared_bytes = 16 * (block_m * (pitch + p_pitch) + block_n * kv_pitch)
//$ let accumulators = thread_m * (thread_n + 4 * thread_v)
//$ require accumulators <= 192
// A thread with up to 64 accumulators needs at most 128 registers; others may use all available registers.
//$ let blocks_at_once = 512 / threads if accumulators <= 64 and threads <= 512 else 256 / threads if threads <= 256 else 1
// Two steps of multiply_scores() at once hide more latency, if there are registers for them.
//$ let unroll = 1 if thread_m * thread_n >= 64 or (thread_m * thread_n >= 32 and accumulators <= 64) else 2
//$ include "expression/tables_launch.cuh" if mask_tables > 0

//$ note The Q tile of a block and its K/V tiles.
//$ include "expression/formula.cuh" if mask == custom_mask or score == custom_score or sinks > 0
//$ include "work/q_tile_of_block.cuh"
//$ include "work/q_tiles_heaviest_first.cuh" if mask == causal else "work/q_tiles_of_heads.cuh"
//$ include "work/locate_q_tile.cuh" if mask == custom_mask or score == custom_score or sinks > 0
//$ require layout == dense
//$ include "walk/ascending_custom.cuh" if mask == custom_mask else "walk/ascending_builtin.cuh"
//$ let copy_async = dtype == fp32 and target != any
//$ include "load/chunk_fp32.cuh" if dtype == fp32 else "load/chunk_16bit.cuh"
//$ include "load/chunks_async.cuh" if copy_async else "load/chunks_by_registers.cuh"
//$ include "load/copy_rows.cuh"
//$ include "store/chunk.cuh"

struct Shared {
    float4 q[BLOCK_M][PITCH];
    float4 p[BLOCK_M][P_PITCH]; // 4 * LANES_N keys of P, each warp in its own rows
    //$ if target == any
    union { // shared memory has no room for both
        float4 k[BLOCK_N][PITCH];
        float4 v[BLOCK_N][V_PITCH];
    };
    //$ else
    float4 k[BLOCK_N][PITCH];   // is copied while V is used
    float4 v[BLOCK_N][V_PITCH]; // is copied while K is used
    //$ end
};
static_assert(sizeof(Shared) == SHARED_BYTES, "as in the launch directive");

//$ note S, P and O in registers.
//$ include "fragment/simt_products.cuh"
//$ include "fragment/simt_mask_custom.cuh" if mask == custom_mask else "fragment/simt_mask_builtin.cuh"
//$ include "fragment/simt_$score.cuh"
//$ include "fragment/simt_softmax.cuh"
//$ include "fragment/simt_rows_with_sink.cuh" if sinks > 0 else "fragment/simt_rows.cuh"
//$ include "fragment/simt_dropout.cuh" if dropout == 1
//$ include "store/simt.cuh"
//$ include "load/tiles_of_head.cuh"

// The work of a block: a Q tile and the keys that it sees.
struct Work {
    const QTile &q_tile;
    const KeyRange &keys;
    const Copies &copies;
    const Dropout &dropout; //$ if dropout == 1
};

// Computes S of a K/V tile and replaces it by P.
__device__ __forceinline__ void weigh_keys(const attention_params &p, const Work &work, const Shared &tile, int key0, Place at,
                                           float (&s)[THREAD_M][THREAD_N], Seen &seen, Rows &rows) {
    multiply_scores(tile, at, s);
    apply_score(p, work.q_tile, key0, at, s);
    mask_scores(p, work.q_tile, work.keys, key0, at, s, seen);
    online_softmax(s, rows);
    drop_weights(work.dropout, work.q_tile.row0, key0, at, s); //$ if dropout == 1
}

//$ include "pipeline/k_and_v_in_turn.cuh" if target == any else "pipeline/k_and_v_ahead.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_AT_ONCE)
    attention_flash_tiled(const __grid_constant__ attention_params p) {
    Shared &tile = *dynamic_shared<Shared>();
    const Place at = my_place();
    QTile q_tile = q_tile_of_block(p);
    Head head = head_at(p, q_tile.head);
    const Copies copies(p);
    const bool o_chunks = in_chunks<Output>(p.o, p.o_batch_stride, p.o_head_stride, p.o_row_stride, HEAD_DIM_V);
    locate(p, q_tile); //$ if mask == custom_mask or score == custom_score or sinks > 0
    const Dropout dropout = dropout_of(p, q_tile.head); //$ if dropout == 1
    const KeyRange keys = keys_of_tile(p, q_tile);
    const Work work = {q_tile, keys, copies, dropout}; //$ if dropout == 1
    const Work work = {q_tile, keys, copies};          //$ else
    advance_keys(p, head, keys.first);
    Rows rows;
    begin_rows(p, q_tile, at, rows);
    go_over_keys(p, work, head, tile, at, rows);
    store_rows(p, head, q_tile.row0, at, rows, o_chunks);
}
