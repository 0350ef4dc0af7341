// Attention by tiles with queries on chip: a block keeps BLOCK_M queries and walks over the keys, BLOCK_N at a time.
//
//     for each K/V tile      S = scale Q K^T                      (BLOCK_M, BLOCK_N), in registers
//                                m' = max(m, row maxima of S)
//                                P = e^(S - m')                       (BLOCK_M, BLOCK_N)
//                                l = e^(m - m') l + row sums of P
//                                O = e^(m - m') O + P V               (BLOCK_M, HEAD_DIM_V), in registers
//$ if dropout == 1
//     O = O / (l (1 - dropout_p)),  LSE = m + ln l
//
// Dropout sets some of P to 0, behind the row sums.
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
// A thread with up to 64 accumulators needs no more than 128 registers; others may use all there are.
//$ let blocks_at_once = 512 / threads if accumulators <= 64 and threads <= 512 else 256 / threads if threads <= 256 else 1
// Two steps of multiply_scores() at once hide more latency, where there are registers for it.
//$ let unroll = 1 if thread_m * thread_n >= 64 or (thread_m * thread_n >= 32 and accumulators <= 64) else 2
//$ include "expression/tables_launch.cuh" if mask_tables > 0

//$ note The Q tile of a block and its K/V tiles.
//$ include "expression/formula.cuh" if mask == custom_mask or score == custom_score or sinks > 0
//$ include "work/q_tile_of_block.cuh"
//$ require layout == dense
//$ include "walk/ascending_custom.cuh" if mask == custom_mask else "walk/ascending_builtin.cuh"
//$ include "load/copy_rows.cuh"

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
//$ include "fragment/simt_softmax.cuh"
//$ include "fragment/simt_dropout.cuh" if dropout == 1
//$ include "store/simt.cuh"

// Copies from global to shared memory: the Q tile, and a tile of the `count` keys that head.k and head.v point to.
struct Copies {
    bool q_chunks, k_chunks, v_chunks; // rows consist of aligned chunks

    __device__ __forceinline__ Copies(const attention_params &p)
        : q_chunks(in_chunks<Input>(p.q, p.q_batch_stride, p.q_head_stride, p.q_row_stride, HEAD_DIM)),
          k_chunks(in_chunks<Input>(p.k, p.k_batch_stride, p.k_head_stride, p.k_row_stride, HEAD_DIM)),
          v_chunks(in_chunks<Input>(p.v, p.v_batch_stride, p.v_head_stride, p.v_row_stride, HEAD_DIM_V)) {}

    __device__ __forceinline__ void copy_q(Shared &tile, const attention_params &p, const Head &head, int row0) const {
        copy_rows<BLOCK_M, CHUNKS, HEAD_DIM>(tile.q, head.q + row0 * p.q_row_stride, p.q_row_stride, p.len_q - row0, q_chunks);
    }
    __device__ __forceinline__ void copy_k(Shared &tile, const attention_params &p, const Head &head, int count) const {
        copy_rows<BLOCK_N, CHUNKS, HEAD_DIM>(tile.k, head.k, p.k_row_stride, count, k_chunks);
    }
    __device__ __forceinline__ void copy_v(Shared &tile, const attention_params &p, const Head &head, int count) const {
        copy_rows<BLOCK_N, V_PITCH, HEAD_DIM_V>(tile.v, head.v, p.v_row_stride, count, v_chunks);
    }
};

__device__ __forceinline__ void advance_keys(const attention_params &p, Head &head, int keys) {
    head.k += keys * p.k_row_stride;
    head.v += keys * p.v_row_stride;
}

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
    advance_keys(p, head, keys.first);
    Rows rows;
    begin_rows(rows, tensor_sinks(p, q_tile.where.h), at); //$ if sinks > 0
    begin_rows(rows);                                      //$ else

    if (keys.first < keys.end) {
        copies.copy_q(tile, p, head, q_tile.row0);
        copies.copy_k(tile, p, head, p.len_kv - keys.first); //$ if target != any
    }
#pragma unroll 1
    for (int key0 = keys.first, next; key0 < keys.end; key0 = next) {
        next = next_tile(p, q_tile, keys, key0);
        const int left = p.len_kv - key0; // keys from here on
        //$ if target == any
        __syncthreads(); // all warps have used V
        copies.copy_k(tile, p, head, left);
        //$ end
        copies_wait();
        __syncthreads(); // K has arrived
        copies.copy_v(tile, p, head, left); //$ if target != any

        float s[THREAD_M][THREAD_N];
        multiply_scores(tile, at, s);
        apply_score(p, q_tile, key0, at, s);
        Seen seen;
        mask_scores(p, q_tile, keys, key0, at, s, seen);
        online_softmax(s, rows);
        drop_weights(dropout, q_tile.row0, key0, at, s); //$ if dropout == 1

        //$ if target == any
        __syncthreads(); // all warps have used K
        copies.copy_v(tile, p, head, left);
        //$ end
        advance_keys(p, head, next - key0);
        copies_wait();
        __syncthreads(); // V has arrived, and all warps have used K
        //$ if target != any
        if (next < keys.end)
            copies.copy_k(tile, p, head, left_from_next(p, left, next));
        //$ end
        add_output(p, q_tile, left, tile, at, s, seen, rows.o);
    }
    store_rows(p, head, q_tile.row0, at, rows, o_chunks);
}
