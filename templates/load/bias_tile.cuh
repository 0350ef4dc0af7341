//$ needs block_m block_n row_tiles bias_stages
//$ include "load/pieces.cuh"
//$ include "expression/bias_key.cuh"
//$ include "fragment/query_rows.cuh"

// Each warp copies the bias that the score adds to the warp's own rows, together with the K/V tile that it belongs to.

using BiasTile = Rows16<BLOCK_M, BLOCK_N / 8>;

struct BiasTiles {
    BiasTile rows[BIAS_STAGES];
    const unsigned short *first[BLOCK_M]; // address of each row's element of key 0, kept here to save registers
};

// Stores the addresses of the warp's rows. To be called before the first copy.
__device__ __forceinline__ void begin_bias(const attention_params &p, const Tile &tile, BiasTiles &bias) {
    const int lane = static_cast<int>(threadIdx.x) % 32, row = first_row_of_warp(threadIdx.x) + lane / 16 * 64 + lane % 16;
    if (lane < 16 * ROW_TILES) {
        const int query = min(row_of(p, tile, row / 64, row % 64).query, p.len_q - 1);
        bias.first[row] = bias_element(p, {tile.batch, tile.head, tile.kv_head}, position_of(p, query), 0);
    }
    __syncwarp();
}

// Returns the distance in rows from a warp's first row to its row `line`; a warp has 16 * ROW_TILES rows.
__device__ __forceinline__ int down_to(int line) { return line / 16 * 64 + line % 16; }

// Copies rows in pieces of 16 bytes. LANES neighbouring lanes copy a row. The addresses of all rows are loaded
// first, since a load would wait for the copies before it.
template <bool WHOLE> __device__ __forceinline__ void copy_bias_pieces(BiasTiles &bias, int stage, int key, int left) {
    constexpr int LANES = BLOCK_N % 32 == 0 ? 4 : 2, DOWN = 32 / LANES, ROWS = 16 * ROW_TILES / DOWN;
    const unsigned thread = thread_of_round(), index = thread % LANES, group = thread % 32 / LANES;
    // Eight lanes write to different banks: half of each of two neighbouring rows of 128 bytes would lie in the same ones.
    const int down = static_cast<int>(BLOCK_N % 64 == 0 ? group / 2 + group % 2 * 4 : group);
    const int row = first_row_of_warp(thread) + down, column = static_cast<int>(index) * 8;
    const SharedAddress to = bias.rows[stage].address(row, index);
    const unsigned short *from[ROWS];
#pragma unroll
    for (int i = 0; i < ROWS; i++)
        from[i] = bias.first[row + down_to(i * DOWN)] + key + column;
#pragma unroll
    for (int i = 0; i < ROWS; i++)
#pragma unroll
        for (int j = 0; j < BLOCK_N / 8; j += LANES)
            copy_async_to<16>(BiasTile::beyond(to, down_to(i * DOWN), j), from[i] + 8 * j,
                              WHOLE ? 16 : max(0, min(2 * (left - column - 8 * j), 16)));
}

// Copies rows in words, if elements lie in aligned pairs.
__device__ __forceinline__ void copy_bias_words(BiasTiles &bias, int stage, int key, int left) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 1
    for (int line = 0; line < 16 * ROW_TILES; line++) {
        const int row = first_row_of_warp(threadIdx.x) + down_to(line);
        for (int i = lane; i < BLOCK_N / 2; i += 32)
            copy_async_to<4>(bias.rows[stage].address(row, i / 4) + i % 4 * 4, bias.first[row] + key + 2 * i,
                             max(0, min(2 * (left - 2 * i), 4)));
    }
}

// Loads rows element by element, `step` apart. Several loads are in flight at once, since the warp stalls until they return.
__device__ __forceinline__ void load_bias_elements(BiasTiles &bias, int stage, int key, int left, long long step) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 8
    for (int line = 0; line < 16 * ROW_TILES; line++) {
        const int row = first_row_of_warp(threadIdx.x) + down_to(line);
        for (int i = lane; i < BLOCK_N / 2; i += 32) {
            const unsigned short *from = bias.first[row] + (key + 2 * i) * step;
            store_word(bias.rows[stage].address(row, i / 4) + i % 4 * 4,
                       (2 * i < left ? from[0] : 0) | static_cast<unsigned>(2 * i + 1 < left ? from[step] : 0) << 16);
        }
    }
}

// Copies the warp's rows for a K/V tile. They may be read after the next wait and barrier.
__device__ __forceinline__ void copy_bias(const attention_params &p, BiasTiles &bias, int stage, int tile_n) {
    const int key = tile_n * BLOCK_N, left = p.len_kv - key;
    const bool pieces = rows_in_pieces(p);
    if (pieces && left >= BLOCK_N)
        copy_bias_pieces<true>(bias, stage, key, left);
    else if (pieces)
        copy_bias_pieces<false>(bias, stage, key, left);
    else if (keys_in_pairs(p))
        copy_bias_words(bias, stage, key, left);
    else
        load_bias_elements(bias, stage, key, left,
                           bias_element(p, {0, 0, 0}, 0, 1) - bias_element(p, {0, 0, 0}, 0, 0));
}
