//$ needs row_groups key_groups o_steps mask score sinks
//$ include "target/sm_80.cuh"
//$ include "fragment/weight_of_score.cuh"
//$ include "work/run.cuh"

// The online softmax on S^T, in accumulators of mma: keys are rows and rows of Q are columns. Of each group of 8 rows, a thread
// holds rows lane % 4 * 2 and the next, for keys lane / 4 and lane / 4 + 8.

// S^T of a K/V tile: in a group of 8 rows and a group of 16 keys, element i is for row i % 2 and key 8 (i / 2) of the thread.
struct Scores {
    float s[ROW_GROUPS][KEY_GROUPS][4];
    unsigned seen; // one bit per element, in this order: the row sees the key //$ if mask != none
};

// P^T of a K/V tile as operand b of O^T += V^T P^T.
struct Weights {
    unsigned pairs[ROW_GROUPS][KEY_GROUPS][2];
    unsigned seen; // as in Scores //$ if mask != none
};

// What a thread holds of a Q tile.
struct Columns {
    const attention_params &p;
    const Tile &tile;
    float c;
    int position[ROW_GROUPS][2], head[ROW_GROUPS][2]; //$ if mask == custom_mask or score == custom_score
    float max[ROW_GROUPS][2]; // m: the largest score; before scaling, unless a score expression applies it
    float sum[ROW_GROUPS][2]; // l: this thread's share of the sum of 2^((s - m) c)
    float o[ROW_GROUPS][O_STEPS][4]; // O^T, not divided by l: of 16 columns, element i is for row i % 2 and column lane / 4 + 8 (i / 2)

    __device__ __forceinline__ Columns(const attention_params &p, const Tile &tile)
        : p(p), tile(tile), c(exponent_factor(p)) {}
    __device__ __forceinline__ void begin() {
#pragma unroll
        for (int n = 0; n < ROW_GROUPS; n++)
#pragma unroll
            for (int j = 0; j < 2; j++) {
                max[n][j] = -INFINITY;
                sum[n][j] = 0;
                //$ if mask == custom_mask or score == custom_score
                const Row at = row(n, j);
                position[n][j] = position_of(p, min(at.query, p.len_q - 1));
                head[n][j] = at.head;
                //$ end
#pragma unroll
                for (int i = 0; i < O_STEPS; i++)
                    o[n][i][j] = o[n][i][j + 2] = 0;
            }
    }
    __device__ __forceinline__ Row row(int n, int j) const {
        return row_of(p, tile, 8 * n + static_cast<int>(threadIdx.x) % 4 * 2 + j);
    }
    //$ if sinks > 0

    // A sink: a logit that enters l and has no V. One warp begins with it, and one of the eight lanes of a row adds it to l.
    __device__ __forceinline__ void add_sinks() {
#pragma unroll
        for (int n = 0; n < ROW_GROUPS; n++)
#pragma unroll
            for (int j = 0; j < 2; j++) {
                max[n][j] = tensor_sinks(p, row(n, j).head);                  //$ if score == custom_score
                max[n][j] = tensor_sinks(p, row(n, j).head) / fabsf(p.scale); //$ else
                sum[n][j] = threadIdx.x % 32 < 4 ? 1 : 0;
            }
    }
    //$ end

    // Applies the score expression to S of the keys from key0 on, and the mask where some row does not see some key.
    __device__ __forceinline__ void finish_scores(Scores &s, int key0, bool masked) const {
        const int first = key0 + static_cast<int>(threadIdx.x) % 32 / 4;
        //$ if score == custom_score
#pragma unroll
        for (int n = 0; n < ROW_GROUPS; n++)
#pragma unroll
            for (int t = 0; t < KEY_GROUPS; t++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    s.s[n][t][i] = score_of(p, {tile.batch, head[n][i % 2], tile.kv_head}, position[n][i % 2],
                                            min(first + 16 * t + 8 * (i / 2), p.len_kv - 1), p.scale * s.s[n][t][i]);
        //$ end
        s.seen = 0xffffffffu; //$ if mask != none
        if (masked)
#pragma unroll
            for (int n = 0; n < ROW_GROUPS; n++)
#pragma unroll
                for (int j = 0; j < 2; j++) {
                    const int end = keys_seen(p, row(n, j).query); // few tiles are masked, so no register keeps it //$ if mask == causal
                    const int end = p.len_kv;                                                                       //$ else
#pragma unroll
                    for (int t = 0; t < KEY_GROUPS; t++)
#pragma unroll
                        for (int i = j; i < 4; i += 2) {
                            const int key = first + 16 * t + 8 * (i / 2);
                            if (key < end && sees(p, {tile.batch, head[n][j], tile.kv_head}, position[n][j], key)) //$ if mask == custom_mask
                            if (key < end)                                                                         //$ else
                                continue;
                            s.s[n][t][i] = -INFINITY;
                            s.seen &= ~(1u << ((n * KEY_GROUPS + t) * 4 + i)); //$ if mask != none
                        }
                }
    }

    // S -> P. Rescales l and O where a maximum grows.
    __device__ __forceinline__ void weigh(Scores &s) {
        float top[ROW_GROUPS][2];
        bool grown = false;
#pragma unroll
        for (int n = 0; n < ROW_GROUPS; n++)
#pragma unroll
            for (int j = 0; j < 2; j++) {
                top[n][j] = max[n][j];
#pragma unroll
                for (int t = 0; t < KEY_GROUPS; t++)
                    top[n][j] = fmaxf(top[n][j], fmaxf(s.s[n][t][j], s.s[n][t][j + 2]));
                grown |= top[n][j] > max[n][j];
            }
        if (__any_sync(0xffffffffu, grown))
            raise_max(top);
#pragma unroll
        for (int n = 0; n < ROW_GROUPS; n++)
#pragma unroll
            for (int t = 0; t < KEY_GROUPS; t++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    sum[n][i % 2] += s.s[n][t][i] = weight_of(s.s[n][t][i], max[n][i % 2], c);
    }
    // m' = max(m, `top`) over the eight lanes of a row.
    __device__ __forceinline__ void raise_max(float (&top)[ROW_GROUPS][2]) {
#pragma unroll
        for (int n = 0; n < ROW_GROUPS; n++)
#pragma unroll
            for (int j = 0; j < 2; j++) {
#pragma unroll
                for (int lanes = 4; lanes < 32; lanes *= 2)
                    top[n][j] = fmaxf(top[n][j], __shfl_xor_sync(0xffffffffu, top[n][j], lanes));
                const float keep = weight_of(max[n][j], top[n][j], c);
                max[n][j] = top[n][j];
                sum[n][j] *= keep;
#pragma unroll
                for (int i = 0; i < O_STEPS; i++)
                    o[n][i][j] *= keep, o[n][i][j + 2] *= keep;
            }
    }
};
