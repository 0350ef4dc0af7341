//$ needs head_dim head_dim_v block_n stages page_size shared_kv kv_scale append
//$ include "load/rows_by_warp.cuh"
//$ include "load/new_rows.cuh" if append == 1
//$ include "walk/keys_of_warp.cuh"

// The rows of a tile of K or V, which lie in pages.
struct KeyRows {
    const InputKv *head; // in row 0 of page 0
    long long page_stride, row_stride;
    int page, key; // page of the key that this lane looked up; first key of the tile

    __device__ __forceinline__ const InputKv *from(int row) const {
        if constexpr (PAGE_SIZE % BLOCK_N == 0)
            return head + page * page_stride + (key % PAGE_SIZE + row) * row_stride;
        return head + __shfl_sync(0xffffffffu, page, row) * page_stride + (key + row) % PAGE_SIZE * row_stride;
    }
};

// Page numbers of the next tiles that a warp copies. Each lane has the page number of one key.
using PageNumbers = int[STAGES][32];

// The K/V tiles of a warp, over all Q tiles of its block. Its lanes copy them STAGES ahead of their use. With each
// tile they copy the page numbers of the tile STAGES later, so that nothing waits for a page number.
struct KeyCopies {
    // A tile to copy.
    struct Next {
        int key, count, kv_head; // first key; number of existing rows, 0: no such tile
        NewRows fresh; //$ if append == 1
    };
    const attention_params &all;
    const Run &run;
    KeyStage (&stage)[STAGES];
    PageNumbers &pages;
    int k_piece; // bytes          //$ if shared_kv == 1
    int k_piece, v_piece; // bytes //$ else
    int stages_free, to;  // number of free stages; the first of them
    Next next[STAGES];
    Tile tile;    // the Q tile that page numbers are copied for
    KeyWalk walk; // over the tiles after `next`
    const int *page_table;
    int len_kv;
    NewRows fresh; // of the sequence that page numbers are copied for //$ if append == 1

    __device__ __forceinline__ KeyCopies(const attention_params &all, const Run &run, const Tile &first,
                                         KeyStage (&stage)[STAGES], PageNumbers &pages)
        : all(all), run(run), stage(stage), pages(pages),
          k_piece(piece_bytes<InputKv>(all.k, all.k_batch_stride, all.k_head_stride, all.k_row_stride)),
          v_piece(piece_bytes<InputKv>(all.v, all.v_batch_stride, all.v_head_stride, all.v_row_stride)), //$ if shared_kv == 0
          stages_free(STAGES), to(0) {
        k_piece = new_key_bytes(all, k_piece), v_piece = new_value_bytes(all, v_piece); //$ if append == 1
        enter(first);
#pragma unroll
        for (int i = 0; i < STAGES; i++)
            next[i] = find(i);
        copy_async_commit();
        copy_async_wait_groups<0>();
    }

    __device__ __forceinline__ void enter(const Tile &following) {
        tile = following;
        const attention_params &p = sequence_of(all, tile.batch);
        walk = walk_of_warp(p, run, tile);
        page_table = p.page_table;
        len_kv = p.len_kv;
        fresh = new_rows_of(p, tile); //$ if append == 1
    }

    // Returns the next tile and starts copying its page numbers to stage `at`. Where there is no key, there is no
    // page either: page numbers past the end of a sequence may be anything.
    __device__ __forceinline__ Next find(int at) {
        while (walk.tile >= walk.end && !is_last(run, tile))
            enter(next_tile(all, tile));
        if (walk.tile >= walk.end)
            return {0, 0, 0}; //$ if append == 0
            return {};        //$ else
        const int key = walk.tile * BLOCK_N, lane = threadIdx.x % 32, own = PAGE_SIZE % BLOCK_N == 0 ? 0 : lane % BLOCK_N;
        copy_async<4>(&pages[at][lane], page_table + (key + own) / PAGE_SIZE, key + own < len_kv ? 4 : 0);
        walk.tile += warps_of(run);
        return {key, len_kv - key, tile.kv_head};        //$ if append == 0
        return {key, len_kv - key, tile.kv_head, fresh}; //$ else
    }

    // Starts copying tiles to all free stages. Commits a group even if there is nothing left to copy, since groups are counted.
    __device__ __forceinline__ void fill() {
#pragma unroll 1
        for (; stages_free > 0; stages_free--) {
            const Next now = next[0];
            const int page = pages[to][threadIdx.x % 32];
#pragma unroll
            for (int i = 0; i + 1 < STAGES; i++)
                next[i] = next[i + 1];
            if (now.count > 0) {
                const InputKv *k = static_cast<const InputKv *>(all.k) + now.kv_head * all.k_head_stride;
                copy_rows<HEAD_DIM>(stage[to].k, KeyRows{k, all.k_batch_stride, all.k_row_stride, page, now.key}, now.count, k_piece); //$ if append == 0
                copy_rows<HEAD_DIM>(stage[to].k, now.fresh.keys(all, KeyRows{k, all.k_batch_stride, all.k_row_stride, page, now.key}, now.key), now.count, k_piece); //$ else
                //$ if shared_kv == 0
                const InputKv *v = static_cast<const InputKv *>(all.v) + now.kv_head * all.v_head_stride;
                copy_rows<HEAD_DIM_V>(stage[to].v, KeyRows{v, all.v_batch_stride, all.v_row_stride, page, now.key}, now.count, v_piece); //$ if append == 0
                copy_rows<HEAD_DIM_V>(stage[to].v, now.fresh.values(all, KeyRows{v, all.v_batch_stride, all.v_row_stride, page, now.key}, now.key), now.count, v_piece); //$ else
                //$ end
                //$ if kv_scale == token
                const int lane = threadIdx.x % 32, row = (now.key + lane) % PAGE_SIZE, wanted = lane < now.count ? 4 : 0;
                copy_async<4>(&stage[to].k_scale[lane], all.k_scale + page * all.k_scale_batch_stride +
                              now.kv_head * all.k_scale_head_stride + row * all.k_scale_row_stride, wanted);
                copy_async<4>(&stage[to].v_scale[lane], all.v_scale + page * all.v_scale_batch_stride +
                              now.kv_head * all.v_scale_head_stride + row * all.v_scale_row_stride, wanted);
                //$ end
            }
            next[STAGES - 1] = find(to);
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
