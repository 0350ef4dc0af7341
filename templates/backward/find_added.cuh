//$ needs bias_copied added_ahead step_m
//$ include "backward/score_keys.cuh"

// What the score adds to S^T, as a consumer finds it.
//$ if bias_copied

// Each warp loads the bias of its own rows of S^T, of the step at distance `ahead`, unless another warp has copied it.
template <bool DK, bool DV> __device__ __forceinline__ void fill_bias(KeysConsumer<DK, DV> &c, int ahead) {
    const attention_params &p = own_sequence(c.all, c.item());
    if (c.last_ahead || bias_is_copied(p, c.item().key0))
        return;
    const Step &of = c.step(ahead);
    BiasTile &bias = c.shared.bias[(c.ring + ahead).stage()];
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x) % 32; i < STEP_M * 16; i += 32) {
        const int query = min(of.first + i / 16, p.len_q - 1), key = min(c.first_key() + i % 16, p.len_kv - 1);
        bias[i / 16][c.first_key() - c.item().key0 + i % 16] = *bias_element(p, of.where, position_of(p, query), key);
    }
    __syncwarp();
}
//$ end
//$ if added_ahead

// Computes what the score adds to S^T of the step at distance `ahead`, while the products of this S^T run.
template <bool DK, bool DV> __device__ __forceinline__ void find_added(KeysConsumer<DK, DV> &c, int ahead) {
    if (c.last_ahead)
        return;
    fill_bias(c, ahead); //$ if bias_copied
    const Step &of = c.step(ahead);
    const attention_params &p = own_sequence(c.all, c.item());
    const ScoreKeys keys = c.score_keys(ahead);
    const int query0 = of.first + static_cast<int>(threadIdx.x) % 4 * 2, key0 = c.own_key();
#pragma unroll
    for (int i = 0; i < STEP_M / 2; i++) {
        const int query = min(query0 + i / 4 * 8 + i % 2, p.len_q - 1), key = min(key0 + i / 2 % 2 * 8, p.len_kv - 1);
        c.added[i] = score_of(p, of.where, position_of(p, query), keys(i, key), 0.0f);
    }
}
//$ end
