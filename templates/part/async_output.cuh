// The part of a Consumer that writes O and LSE of a tile of queries.

    __device__ __forceinline__ void store_lse(const Tile &tile, Row to, float max, float sum) {
        if (a.lse && to.query < a.len_q)
            a.lse[tile.batch * a.lse_batch_stride + to.head * a.lse_head_stride + to.query] =
                //$ if score == custom_score
                sum == 0 ? -INFINITY : max + log2_approx(sum) * LN_2;
        //$ else
                sum == 0 ? -INFINITY : max * fabsf(a.scale) + log2_approx(sum) * LN_2;
        //$ end
    }

    // O = O / l;  LSE = m scale + ln l.
    __device__ __forceinline__ void finish(Tile tile, int stage, const Rows &rows) {
        //$ if mask != none
        unsigned again = rows_to_repeat(o, rows);
        //$ end
        float sum[2], inverse[2];
#pragma unroll
        for (int r = 0; r < 2; r++) {
            sum[r] = rows.sum[r] + __shfl_xor_sync(0xffffffffu, rows.sum[r], 1); // l over the four lanes of the row
            sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], 2);
            inverse[r] = sum[r] == 0 ? 1 : reciprocal_approx(sum[r]); // a row that saw nothing stays 0
        }
        bool upper = lane % 4 == 0;
        if (lane % 4 < 2) // a row each
            store_lse(tile, row_of(a, tile, unit, upper ? row() : row() + 8), upper ? rows.max[0] : rows.max[1],
                      upper ? sum[0] : sum[1]);
        store_rows(tile, stage, inverse);
        //$ if mask != none
        if (again && values_want_care(a, tile, unit))
            store_again(tile, stage, again);
        //$ end
        //$ if store == tma
        fence_async();
        barrier_arrive(&shared.q_empty[stage][index]);
        //$ end
    }
    //$ if mask != none
    // In place of what store_rows has stored.
    __device__ __forceinline__ void store_again(const Tile &tile, int stage, unsigned again) {
        __syncwarp();
#pragma unroll 1
        for (; again; again &= again - 1) {
            int bit = __ffs(static_cast<int>(again)) - 1, line = warp_index() % 4 * 16 + bit / 4 + bit % 4 * 8;
            Row to = row_of(a, tile, unit, line);
            if (to.query >= a.len_q)
                continue;
            RepeatedRow done = repeat_row(a, tile, to, c);
            float inverse = done.sum == 0 ? 1 : reciprocal_approx(done.sum);
            if (lane == 0)
                store_lse(tile, to, done.max, done.sum);
            //$ if store == direct
            Output *o = static_cast<Output *>(a.o) + tile.batch * a.o_batch_stride + to.head * a.o_head_stride +
                        to.query * a.o_row_stride;
            //$ end
#pragma unroll
            for (int i = 0; i < PIECES; i++) {
                int column = lane + 32 * i;
                if (column < HEAD_DIM_V)
                    //$ if store == tma
                    shared.q[stage][index][i / 2][line][(column / 8 ^ line) % 8 * 8 + column % 8] =
                        to_output(done.o[i] * inverse);
                //$ else
                    o[column] = to_output(done.o[i] * inverse);
                //$ end
            }
        }
    }
    //$ end

    //$ if store == tma
    // To where Q was, from where the copy unit takes it: rows of 16 bytes, in its swizzle.
    __device__ __forceinline__ void store_rows(Tile, int stage, const float (&scale)[2]) {
        named_barrier_sync(4 + index, 128); // all of the warpgroup's products have read Q
        int line = warp_index() % 4 * 16 + lane % 16;
#pragma unroll
        for (int i = 0; i < HEAD_DIM_V / 2; i += 8) { // 16 columns: two chunks of 16 bytes
            int chunk = i / 4 % 8 + lane / 16, j = i + 4 < HEAD_DIM_V / 2 ? i + 4 : i;
            store_matrices(&shared.q[stage][index][i / 32][line][(chunk ^ line % 8) * 8],
                           pack<BFLOAT16_OUT>(o[i] * scale[0], o[i + 1] * scale[0]),
                           pack<BFLOAT16_OUT>(o[i + 2] * scale[1], o[i + 3] * scale[1]),
                           j > i ? pack<BFLOAT16_OUT>(o[j] * scale[0], o[j + 1] * scale[0]) : 0,
                           j > i ? pack<BFLOAT16_OUT>(o[j + 2] * scale[1], o[j + 3] * scale[1]) : 0);
        }
    }
    //$ elif dtype_out == fp32
    __device__ __forceinline__ void store_rows(Tile tile, int, const float (&scale)[2]) {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            Row at = row_of(a, tile, unit, row() + 8 * r);
            float *to = static_cast<float *>(a.o) + tile.batch * a.o_batch_stride + at.head * a.o_head_stride +
                        at.query * a.o_row_stride + lane % 4 * 2;
            if (at.query < a.len_q)
#pragma unroll
                for (int i = 0; i < HEAD_DIM_V / 8; i++) {
                    to[8 * i] = o[4 * i + 2 * r] * scale[r];
                    to[8 * i + 1] = o[4 * i + 2 * r + 1] * scale[r];
                }
        }
    }
    //$ else
    // Two neighbours exchange a pair of columns, so that the four lanes of a row write 32 bytes of it together.
    __device__ __forceinline__ void store_rows(Tile tile, int, const float (&scale)[2]) {
        bool odd = lane % 2;
#pragma unroll
        for (int r = 0; r < 2; r++) {
            Row at = row_of(a, tile, unit, row() + 8 * r);
            unsigned short *to = static_cast<unsigned short *>(a.o) + tile.batch * a.o_batch_stride +
                                 at.head * a.o_head_stride + at.query * a.o_row_stride;
#pragma unroll
            for (int i = 0; i < HEAD_DIM_V / 8; i += 2) {
                int j = i + 1 < HEAD_DIM_V / 8 ? i + 1 : i;
                unsigned low = pack<BFLOAT16_OUT>(o[4 * i + 2 * r] * scale[r], o[4 * i + 2 * r + 1] * scale[r]);
                unsigned high = pack<BFLOAT16_OUT>(o[4 * j + 2 * r] * scale[r], o[4 * j + 2 * r + 1] * scale[r]);
                unsigned other = __shfl_xor_sync(0xffffffffu, odd ? low : high, 1);
                if (at.query < a.len_q && (j > i || !odd))
                    *reinterpret_cast<uint2 *>(to + 8 * (i + odd) + lane % 4 / 2 * 4) =
                        odd ? make_uint2(other, high) : make_uint2(low, other);
            }
        }
    }
    //$ end
