//$ needs mask score block_n stages store p_in q_in bias_stages
//$ needs k_bytes v_bytes q_stages k_stages skip_per_warpgroup changes_sequence
//$ include "fragment/unit_rows.cuh"

// One consumer warpgroup and everything that it holds in registers: S, O, P and Q as 16-bit pairs where they are not in shared
// memory, and about 32 more registers per thread, which a requirement of the template counts.
struct Consumer : UnitRows {
    int index;               // of this consumer in its block
    unsigned long long k, v; // matrix descriptors of stage 0

    Ring<Q_STAGES> queries;
    int step; // K/V tiles that this warpgroup has processed
    int unseen; // K/V tiles to skip: only other units of the Q tile need them //$ if skip_per_warpgroup
    Weights weights;
    Queries q;
    const attention_params &all; // of all sequences       //$ if changes_sequence
    attention_params &own;       // p; receive replaces it //$ if changes_sequence

    //$ if changes_sequence
    __device__ __forceinline__ Consumer(const attention_params &all, attention_params &own, Shared &shared, int index)
        : UnitRows(own, shared, unit_of(index)), index(index), k(matrix_descriptor(shared.k[0], 0)),
          v(matrix_descriptor(shared.v[0], BLOCK_N * 128)), queries{0}, step(0), all(all), own(own) {
        //$ else
    __device__ __forceinline__ Consumer(const attention_params &p, Shared &shared, int index)
        : UnitRows(p, shared, unit_of(index)), index(index), k(matrix_descriptor(shared.k[0], 0)),
          v(matrix_descriptor(shared.v[0], BLOCK_N * 128)), queries{0}, step(0) {
        //$ end
        q.first = matrix_descriptor(shared.q[0][index], 0); //$ if q_in == q_shared
        weights = {&shared.p[index], index}; //$ if p_in == p_shared
        score = {index, {0}}; //$ if bias_stages > 0
    }

    __device__ __forceinline__ Ring<K_STAGES> keys(int ahead) const { return {step + ahead}; }
    __device__ __forceinline__ Ring<STAGES> values(int ahead = 0) const { return {step + ahead}; }

    // Receives the Q tile that is handed out next.
    __device__ __forceinline__ Tile receive() {
        Ring<2> taken = {queries.count};
        Tile tile = take_tile(shared, taken);
        own = sequence_of(all, shared.sequence[(taken + 1).stage()]); //$ if changes_sequence
        __syncwarp();
        if (elect_one())
            barrier_arrive(&shared.tile_empty[(taken + 1).stage()]);
        return tile;
    }
    __device__ __forceinline__ void begin_tile(const Tile &tile) {
        unit.tile = tile;
        unit.where = {tile.batch, tile.head, tile.kv_head}; //$ if mask == custom_mask or score == custom_score
        begin_walk(p, tile, unit.index, walk);
    }

    __device__ __forceinline__ void issue_scores(Ring<K_STAGES> at) {
        barrier_wait(&shared.k_full[at.stage()], at.parity());
        take_turn(index);
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

    // Called when S of this K/V tile is final: releases K, and after the last tile also Q.
    __device__ __forceinline__ void scores_done(Ring<K_STAGES> at) {
        release_keys(&shared.k_empty[at.stage()]);
        if (walk.left == 0) release(&shared.q_empty[queries.stage()][index]); // Q, too //$ if store == direct and q_in == q_shared
    }
    __device__ __forceinline__ void output_done(Ring<STAGES> at) {
        wgmma_settle(o);
        release_keys(&shared.v_empty[at.stage()]);
    }
};
