//$ needs mask score block_n stages store p_in q_in mask_tiles bias_stages
//$ needs pingpong_schedule panels k_bytes v_bytes q_stages k_stages skip_per_warpgroup
//$ include "fragment/unit_rows.cuh"

// One consumer warpgroup and everything that it holds in registers: S, O, P and Q as 16-bit pairs where they are not in shared
// memory, and about 32 more registers a thread, which the last requirement of the template counts.
struct Consumer : UnitRows {
    int index;               // of this consumer in its block
    unsigned long long k, v; // matrix descriptors of stage 0

    Ring<Q_STAGES> queries;
    int step; // K/V tiles that this warpgroup has processed
    int unseen; // K/V tiles to skip: only other units of the Q tile need them //$ if skip_per_warpgroup
    Weights weights;
    Queries q;

    __device__ __forceinline__ Consumer(const attention_params &p, Shared &shared, int index)
        : UnitRows(p, shared, unit_of(index)), index(index), k(matrix_descriptor(shared.k[0], 0)),
          v(matrix_descriptor(shared.v[0], BLOCK_N * 128)), queries{0}, step(0) {
        q.first = matrix_descriptor(shared.q[0][index], 0); //$ if q_in == q_shared
        weights = {&shared.p[index], index}; //$ if p_in == p_shared
        score = {index, {0}}; //$ if bias_stages > 0
    }

    __device__ __forceinline__ Ring<K_STAGES> keys(int ahead) const { return {step + ahead}; }
    __device__ __forceinline__ Ring<STAGES> values(int ahead = 0) const { return {step + ahead}; }

    // Take the next Q tile. False when there is none.
    __device__ __forceinline__ bool take() {
        Ring<2> taken = {queries.count};
        Tile tile = take_tile(shared, taken);
        __syncwarp();
        if (elect_one())
            barrier_arrive(&shared.tile_empty[(taken + 1).stage()]);
        unseen = queries.count > 0 ? tiles_after(p, unit.tile, unit.index, walk) : 0; // of the previous Q tile //$ if skip_per_warpgroup and mask_tiles != builtin
        unit.tile = tile;
        unit.where = {tile.batch, tile.head, tile.kv_head}; //$ if mask == custom_mask or score == custom_score
        //$ if mask_tiles == builtin
        walk = walk_of_unit(p, tile, unit.index);
        unseen = walk.unseen; //$ if skip_per_warpgroup
        //$ else
        if (tile.query >= 0) {
            walk = walk_of_unit(p, tile, unit.index);
            unseen += walk.unseen; //$ if skip_per_warpgroup
        }
        //$ end
        return tile.query >= 0;
    }

    //$ if skip_per_warpgroup
    // Wait for the bytes of skipped tiles, too: else a stage could be released one phase early.
    __device__ __forceinline__ void skip_unseen() {
        for (; unseen > 0; unseen--, step++) {
            barrier_wait(&shared.k_full[keys(0).stage()], keys(0).parity());
            barrier_wait(&shared.v_full[values().stage()], values().parity());
            //$ if bias_stages > 0
            if (await_bias(score, p, shared))
                bias_done(score, p, shared);
            //$ end
            named_barrier_sync(4 + index, 128); // else a late warp could miss the phase that it waits for
            release_keys(&shared.k_empty[keys(0).stage()]);
            release_keys(&shared.v_empty[values().stage()]);
        }
    }

    //$ end
    // Take the next Q tile and skip leading K/V tiles that this warpgroup does not need. False when there is none.
    __device__ __forceinline__ bool take_and_skip() {
        bool more = take();
        skip_unseen(); //$ if skip_per_warpgroup
        return more;
    }

    __device__ __forceinline__ void pingpong_sync() {
        named_barrier_sync(1 + index, 256); //$ if pingpong_schedule
    }
    __device__ __forceinline__ void pingpong_arrive() {
        named_barrier_arrive(2 - index, 256); //$ if pingpong_schedule
    }

    __device__ __forceinline__ void issue_scores(Ring<K_STAGES> at) {
        barrier_wait(&shared.k_full[at.stage()], at.parity());
        pingpong_sync();
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
    // For scale < 0, scale Q K^T = |scale| (-Q) K^T: so the largest score is always that of the largest product.
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
        load_queries(q, shared.q[queries.stage()][index]); //$ if q_in == q_registers
        //$ if store == direct and q_in == q_registers
        fence_async();
        __syncwarp();
        if (elect_one())
            barrier_arrive(&shared.q_empty[queries.stage()][index]);
        //$ end
    }

    // S of this K/V tile is final: release K, and after the last tile Q.
    __device__ __forceinline__ void scores_done(Ring<K_STAGES> at) {
        release_keys(&shared.k_empty[at.stage()]);
        //$ if store == direct and q_in == q_shared
        if (walk.left == 0)
            release(&shared.q_empty[queries.stage()][index]);
        //$ end
    }
    __device__ __forceinline__ void output_done(Ring<STAGES> at) {
        wgmma_settle(o);
        release_keys(&shared.v_empty[at.stage()]);
    }
};
