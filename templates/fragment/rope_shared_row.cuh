//$ needs half rope_from
//$ include "load/pieces.cuh"
//$ include "fragment/rope_pair.cuh"
//$ include "fragment/rope_$rope_from.cuh"

// Rotates a row in shared memory with all lanes of a warp; other threads see it after a barrier.
template <int ROWS, int WIDTH>
__device__ __forceinline__ void rotate_row(const attention_params &all, Rows16<ROWS, WIDTH> &rows, int row, int position) {
#pragma unroll 1
    for (int pair = threadIdx.x % 32; pair < HALF; pair += 32) {
        const int first = pair_element(pair, 0), second = pair_element(pair, 1);
        Input &a = reinterpret_cast<Input *>(&rows.at(row, first / 8))[first % 8];
        Input &b = reinterpret_cast<Input *>(&rows.at(row, second / 8))[second % 8];
        float x = to_float(a), y = to_float(b), cosine, sine;
        angle_of(all, position, pair, cosine, sine);
        turn(x, y, cosine, sine);
        a = to_input(x), b = to_input(y);
    }
}
