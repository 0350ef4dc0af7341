//$ needs mask score block_n stages store weights_in queries_in mask_tiles bias_stages
//$ needs in_turns panels k_bytes v_bytes q_stages k_stages units_apart
//$ include "fragment/unit_rows.cuh"

// What one warpgroup of consumers does, with everything that it holds in registers: S, O, P and Q as 16-bit pairs where they
// are not in shared memory, and about 32 a thread besides, which the template's last requirement counts.
struct Consumer : UnitRows {
    int index;               // of the consumers of this block
    unsigned long long k, v; // descriptors of their first stages

    Ring<Q_STAGES> queries;
    int step; // tiles of keys that went through this warpgroup
    //$ if units_apart
    int unseen; // tiles of keys to go by, which only other units see
    //$ end
    Weights weights;
    Queries q;

    __device__ __forceinline__ Consumer(const attention_params &p, Shared &shared, int index)
        : UnitRows(p, shared, unit_of(index)), index(index), k(matrix_descriptor(shared.k[0], 0)),
          v(matrix_descriptor(shared.v[0], BLOCK_N * 128)), queries{0}, step(0) {
        //$ if queries_in == q_shared
        q.first = matrix_descriptor(shared.q[0][index], 0);
        //$ end
        //$ if weights_in == p_shared
        weights = {&shared.p[index], index};
        //$ end
        //$ if bias_stages > 0
        score = {index, {0}};
        //$ end
    }

    __device__ __forceinline__ Ring<K_STAGES> keys(int ahead) const { return {step + ahead}; }
    __device__ __forceinline__ Ring<STAGES> values(int ahead = 0) const { return {step + ahead}; }

    // The next tile of queries. False when there is none.
    __device__ __forceinline__ bool take() {
        Ring<2> taken = {queries.count};
        Tile tile = take_tile(shared, taken);
        __syncwarp();
        if (elect_one())
            barrier_arrive(&shared.tile_empty[(taken + 1).stage()]);
        //$ if units_apart and mask_tiles != builtin
        unseen = queries.count > 0 ? tiles_after(p, unit.tile, unit.index, walk) : 0; // of the tile before
        //$ end
        unit.tile = tile;
        //$ if mask == custom_mask or score == custom_score
        unit.where = {tile.batch, tile.head, tile.kv_head};
        //$ end
        //$ if mask_tiles == builtin
        walk = walk_of_unit(p, tile, unit.index);
        //$ if units_apart
        unseen = walk.unseen;
        //$ end
        //$ else
        if (tile.query >= 0) {
            walk = walk_of_unit(p, tile, unit.index);
            //$ if units_apart
            unseen += walk.unseen;
            //$ end
        }
        //$ end
        return tile.query >= 0;
    }
    //$ if units_apart

    // Bytes of unseen tiles are waited for, or a stage could be given back a round early.
    __device__ __forceinline__ void skip_unseen() {
        for (; unseen > 0; unseen--, step++) {
            barrier_wait(&shared.k_full[keys(0).stage()], keys(0).parity());
            barrier_wait(&shared.v_full[values().stage()], values().parity());
            //$ if bias_stages > 0
            if (await_bias(score, p, shared))
                bias_done(score, p, shared);
            //$ end
            named_barrier_sync(4 + index, 128); // or a warp that is late would not see the phase it waits for
            release_k(&shared.k_empty[keys(0).stage()]);
            release_keys(&shared.v_empty[values().stage()]);
        }
    }
    //$ end

    // The next tile of queries, behind tiles of keys that are not for this warpgroup. False when there is none.
    __device__ __forceinline__ bool take_and_skip() {
        bool more = take();
        //$ if units_apart
        skip_unseen();
        //$ end
        return more;
    }

    __device__ __forceinline__ void begin_turn() {
        //$ if in_turns
        named_barrier_sync(1 + index, 256);
        //$ end
    }
    __device__ __forceinline__ void end_turn() {
        //$ if in_turns
        named_barrier_arrive(2 - index, 256);
        //$ end
    }

    __device__ __forceinline__ void issue_scores(Ring<K_STAGES> at) {
        barrier_wait(&shared.k_full[at.stage()], at.parity());
        begin_turn();
        wgmma_fence();
        multiply_scores(s, q, queries.stage(), k + at.stage() * (K_BYTES / 16));
        wgmma_commit();
    }
    __device__ __forceinline__ void issue_output() {
        barrier_wait(&shared.v_full[values().stage()], values().parity());
        wgmma_fence();
        multiply_output(o, weights, v + values().stage() * (V_BYTES / 16));
        wgmma_commit();
    }
    //$ if score != custom_score

    // scale Q K^T = |scale| (-Q) K^T: so the largest score is that of the largest product whatever the sign of scale is.
    __device__ __forceinline__ void negate_queries() {
        unsigned *pairs = reinterpret_cast<unsigned *>(shared.q[queries.stage()][index]);
#pragma unroll 4
        for (int i = threadIdx.x % 128; i < PANELS * 64 * 32; i += 128)
            pairs[i] ^= 0x80008000;
        fence_async();
        named_barrier_sync(4 + index, 128);
    }
    //$ end

    __device__ __forceinline__ void await_queries() {
        barrier_wait(&shared.q_full[queries.stage()][index], queries.parity());
        //$ if score != custom_score
        if (p.scale < 0)
            negate_queries();
        //$ end
        //$ if queries_in == q_registers
        load_queries(q, shared.q[queries.stage()][index]);
        //$ if store == direct
        fence_async();
        __syncwarp();
        if (elect_one())
            barrier_arrive(&shared.q_empty[queries.stage()][index]);
        //$ end
        //$ end
    }

    // S of this tile of keys is not multiplied again; after the last one nor is any of these queries'.
    __device__ __forceinline__ void scores_done(Ring<K_STAGES> at) {
        release_k(&shared.k_empty[at.stage()]);
        //$ if store == direct and queries_in == q_shared
        if (walk.left == 0)
            release_q(&shared.q_empty[queries.stage()][index]);
        //$ end
    }
    __device__ __forceinline__ void output_done(Ring<STAGES> at) {
        wgmma_settle(o);
        release_keys(&shared.v_empty[at.stage()]);
    }

};
