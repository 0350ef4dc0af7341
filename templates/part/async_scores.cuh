// The part of a Consumer that makes of S what a score's expression says.

    //$ if folded
    // S of tile `tile_n` as the problem has it, less `from` of their row, as exponents of 2.
    //$ else
    // S of tile `tile_n` as the problem has it.
    //$ end
    __device__ __forceinline__ void score_tile(int tile_n) {
        //$ if not folded
        int key = tile_n * BLOCK_N + lane % 4 * 2;
        //$ end
        //$ if score_bias == bias_rows
        if (!await_ahead() || (tile_n + 1) * BLOCK_N > a.len_kv)
            fill_ahead(tile_n * BLOCK_N);
        score_ahead(key);
        //$ end
        //$ if not folded and score_bias == no_bias
        if (sizeof(ScoreKey) > sizeof(int) && keys_in_pairs(a) && (tile_n + 1) * BLOCK_N <= a.len_kv)
            score_each<ScoreKey>(key);
        else
            score_each<int>(key);
        //$ elif folded
        apply_fold(s, fold, rest);
        //$ end
    }
    //$ if score_bias == bias_rows
    // False when nothing is copied ahead.
    __device__ __forceinline__ bool await_ahead() {
        if (!rows_in_pieces(a))
            return false;
        barrier_wait(&shared.ahead_full[ahead.stage()][index], ahead.parity());
        return true;
    }
    __device__ __forceinline__ void ahead_done() {
        __syncwarp();
        if (elect_one())
            barrier_arrive(&shared.ahead_empty[ahead.stage()][index]);
        ahead.count++;
    }
    __device__ __forceinline__ void score_done() {
        if (rows_in_pieces(a))
            ahead_done();
    }
    // What is not copied, by the warp whose rows they are.
    __device__ __forceinline__ void fill_ahead(int first) {
#pragma unroll 1
        for (int i = 0; i < 16; i++) {
            int line = warp_index() % 4 * 16 + i;
            int q = position_of(a, min(row_of(a, span.tile, unit, line).query, a.len_q - 1));
#pragma unroll
            for (int column = lane; column < BLOCK_N; column += 32)
                shared.ahead[ahead.stage()][index][line][column] =
                    first + column < a.len_kv ? *element_ahead(a, span.where, q, first + column) : 0;
        }
        __syncwarp();
    }
    __device__ __forceinline__ void score_ahead(int key) {
        const int first_row = row(), q[2] = {position(first_row), position(first_row + 8)};
        const unsigned short *line = &shared.ahead[ahead.stage()][index][warp_index() % 4 * 16 + lane % 16][lane / 16 * 8];
#pragma unroll
        for (int i = 0; i < BLOCK_N / 2; i += 8) { // 16 columns
            unsigned pair[4];
            load_matrices(pair, line + 2 * i);
#pragma unroll
            for (int j = 0; j < 8; j++) {
                KeyAhead k;
                set_key(k, key, 8 * ((i + j) / 4) + j % 2);
                k.pair = pair[j / 2];
                s[i + j] = score_of(a, span.where, q[j / 2 % 2], k, a.scale * s[i + j]);
            }
        }
    }
    //$ end
    //$ if not folded and score_bias == no_bias
    template <typename Key> __device__ __forceinline__ void score_each(int key) {
        const int first_row = row(), q[2] = {position(first_row), position(first_row + 8)};
        int first[2] = {set_apart(key), set_apart(key)}; // so that addresses are of rows, plus constants
#pragma unroll
        for (int i = 0; i < BLOCK_N / 2; i++) {
            int place = 8 * (i / 4) + i % 2;
            Key k;
            if constexpr (sizeof(Key) > sizeof(int))
                set_key(k, first[i / 2 % 2], place);
            else
                set_key(k, min(key + place, a.len_kv - 1), 0);
            s[i] = score_of(a, span.where, q[i / 2 % 2], k, a.scale * s[i]);
        }
    }
    //$ end
