//$ needs head_dim head_dim_v block_n stages shared_kv kv_scale append
//$ include "load/rows_by_warp.cuh"
//$ include "load/new_rows.cuh" if append == 1
//$ include "walk/keys_of_warp.cuh"

// The rows of a tile of K or V.
struct KeyRows {
    const InputKv *first;
    long long stride;

    __device__ __forceinline__ const InputKv *from(int row) const { return first + row * stride; }
};

// The K/V tiles of a warp, over all Q tiles of its block. Its lanes copy them STAGES ahead of their use.
struct KeyCopies {
    const attention_params &all;
    const Run &run;
    KeyStage (&stage)[STAGES];
    int k_piece; // bytes          //$ if shared_kv == 1
    int k_piece, v_piece; // bytes //$ else
    int stages_free, to;  // number of free stages; the first of them
    Tile tile;            // the Q tile that K/V tiles are copied for
    KeyWalk walk;         // over its remaining K/V tiles
    const InputKv *k;     //$ if shared_kv == 1
    const InputKv *k, *v; //$ else
    const float *k_scale, *v_scale; // of this lane's key in the first tile //$ if kv_scale == token
    int len_kv;
    NewRows fresh; //$ if append == 1

    __device__ __forceinline__ KeyCopies(const attention_params &all, const Run &run, const Tile &first,
                                         KeyStage (&stage)[STAGES])
        : all(all), run(run), stage(stage),
          k_piece(piece_bytes<InputKv>(all.k, all.k_batch_stride, all.k_head_stride, all.k_row_stride)),
          v_piece(piece_bytes<InputKv>(all.v, all.v_batch_stride, all.v_head_stride, all.v_row_stride)), //$ if shared_kv == 0
          stages_free(STAGES), to(0) {
        k_piece = new_key_bytes(all, k_piece), v_piece = new_value_bytes(all, v_piece); //$ if append == 1
        enter(first);
    }

    __device__ __forceinline__ void enter(const Tile &next) {
        tile = next;
        const attention_params &p = sequence_of(all, tile.batch);
        walk = walk_of_warp(p, run, tile);
        len_kv = p.len_kv;
        fresh = new_rows_of(p, tile); //$ if append == 1
        k = static_cast<const InputKv *>(p.k) + tile.batch * p.k_batch_stride + tile.kv_head * p.k_head_stride;
        v = static_cast<const InputKv *>(p.v) + tile.batch * p.v_batch_stride + tile.kv_head * p.v_head_stride; //$ if shared_kv == 0
        //$ if kv_scale == token
        const int lane = threadIdx.x % 32;
        k_scale = p.k_scale + tile.batch * p.k_scale_batch_stride + tile.kv_head * p.k_scale_head_stride + lane * p.k_scale_row_stride;
        v_scale = p.v_scale + tile.batch * p.v_scale_batch_stride + tile.kv_head * p.v_scale_head_stride + lane * p.v_scale_row_stride;
        //$ end
    }

    // Starts copying tiles to all free stages. Commits a group even if there is nothing left to copy, since groups are counted.
    __device__ __forceinline__ void fill() {
#pragma unroll 1
        for (; stages_free > 0; stages_free--) {
            while (walk.tile >= walk.end && !is_last(run, tile))
                enter(next_tile(all, tile));
            if (walk.tile < walk.end) {
                const int key = walk.tile * BLOCK_N;
                copy_rows<HEAD_DIM>(stage[to].k, KeyRows{k + key * all.k_row_stride, all.k_row_stride}, len_kv - key, k_piece);                        //$ if append == 0
                copy_rows<HEAD_DIM>(stage[to].k, fresh.keys(all, KeyRows{k + key * all.k_row_stride, all.k_row_stride}, key), len_kv - key, k_piece);  //$ else
                copy_rows<HEAD_DIM_V>(stage[to].v, KeyRows{v + key * all.v_row_stride, all.v_row_stride}, len_kv - key, v_piece); //$ if append == 0 and shared_kv == 0
                copy_rows<HEAD_DIM_V>(stage[to].v, fresh.values(all, KeyRows{v + key * all.v_row_stride, all.v_row_stride}, key), len_kv - key, v_piece); //$ elif append == 1
                //$ if kv_scale == token
                const int lane = threadIdx.x % 32, wanted = key + lane < len_kv ? 4 : 0;
                copy_async<4>(&stage[to].k_scale[lane], k_scale + key * all.k_scale_row_stride, wanted);
                copy_async<4>(&stage[to].v_scale[lane], v_scale + key * all.v_scale_row_stride, wanted);
                //$ end
                walk.tile += warps_of(run);
            }
            copy_async_commit();
            to = to + 1 < STAGES ? to + 1 : 0;
        }
    }
    // Waits until the oldest tile in flight has arrived. Its stage is free once it has been read.
    __device__ __forceinline__ void await() {
        copy_async_wait_groups<STAGES - 1>();
        __syncwarp();
        stages_free = 1;
    }
};
