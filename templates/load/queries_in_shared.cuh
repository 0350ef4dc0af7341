//$ needs block_m chunks row_groups threads
//$ include "load/pieces.cuh"
//$ include "load/query_chunk.cuh"
//$ include "work/run.cuh"

// Q of a Q tile on its way to shared memory: each thread's share of the chunks of 8 columns.
struct QueriesAhead {
    uint4 chunk[(BLOCK_M * CHUNKS + THREADS - 1) / THREADS];
};

__device__ __forceinline__ QueriesAhead load_queries(const attention_params &p, const Tile &tile) {
    const QueryRows rows(p);
    QueriesAhead ahead;
    int index = threadIdx.x;
#pragma unroll
    for (uint4 &chunk : ahead.chunk) {
        chunk = rows.chunk(tile, min(index / CHUNKS, BLOCK_M - 1), index % CHUNKS * 8);
        index += THREADS;
    }
    return ahead;
}

// Q^T as operand b of S^T = K Q^T, from shared memory.
struct Queries {
    Rows16<BLOCK_M, CHUNKS> &rows;

    // Loads 16 columns of each group of 8 rows.
    __device__ __forceinline__ void operand(unsigned (&b)[ROW_GROUPS][2], int step) const {
        const unsigned lane = threadIdx.x % 32;
        //$ if row_groups == 1
        const SharedAddress first = rows.address(lane % 8, lane / 8 % 2); // the last two of the four matrices are the first two again
        unsigned pairs[4];
        load_matrices_at(pairs, rows.beyond(first, 0, 2 * step));
        b[0][0] = pairs[0], b[0][1] = pairs[1];
        //$ else
        const SharedAddress first = rows.address(lane / 16 * 8 + lane % 8, lane / 8 % 2);
#pragma unroll
        for (int n = 0; n < ROW_GROUPS; n += 2) {
            unsigned pairs[4];
            load_matrices_at(pairs, rows.beyond(first, 8 * n, 2 * step));
            b[n][0] = pairs[0], b[n][1] = pairs[1];
            b[n + 1][0] = pairs[2], b[n + 1][1] = pairs[3];
        }
        //$ end
    }
    // Takes the Q that was loaded ahead. All warps have read the previous one.
    __device__ __forceinline__ void begin(const QueriesAhead &ahead) {
        int index = threadIdx.x;
#pragma unroll
        for (const uint4 &chunk : ahead.chunk) {
            if (index < BLOCK_M * CHUNKS) {
                const SharedAddress to = rows.address(index / CHUNKS, index % CHUNKS);
                store_word(to, chunk.x), store_word(to + 4, chunk.y), store_word(to + 8, chunk.z), store_word(to + 12, chunk.w);
            }
            index += THREADS;
        }
        __syncthreads();
    }
};
