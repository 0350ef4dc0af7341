// Softmax of each row, in two passes. Pass 1 finds the maximum and the denominator: when a larger score appears,
// the sum so far is multiplied by exp(old max - new max), as if the new maximum had been known from the start.
// One block per row. Moves 3 elements per element: two reads, one write.
//$ default threads = 128
//$ tune threads in [32, 64, 128, 256, 512, 1024]
//$ require threads % 32 == 0
//$ let shared_bytes = 8 * threads / 32
//$ launch softmax_online grid rows block threads shared shared_bytes
//$ include "params/softmax.h"
//$ include "sequence/element.cuh"
//$ include "fragment/softmax.cuh"

struct Shared {
    SoftmaxState partial[THREADS / 32];
};
static_assert(sizeof(Shared) == SHARED_BYTES, "as in the launch directive");

extern "C" __global__ void __launch_bounds__(THREADS) softmax_online(const __grid_constant__ softmax_params p) {
    Shared &shared = *dynamic_shared<Shared>();
    const Input *x = static_cast<const Input *>(p.x) + blockIdx.x * p.x_row_stride; // (cols)
    Output *y = static_cast<Output *>(p.y) + blockIdx.x * p.y_row_stride;           // (cols), perhaps x itself

    // Pass 1: m and l, each thread over its own columns, then over all threads.
    SoftmaxState state = softmax_of_nothing();
    for (long long col = threadIdx.x; col < p.cols; col += THREADS)
        state = softmax_join(state, softmax_of(to_float(x[col])));
    state = block_reduce<SoftmaxState, softmax_join>(state, shared.partial);

    // Pass 2: y = exp(x - m) / l. Each thread writes what only it reads, so y may be x.
    for (long long col = threadIdx.x; col < p.cols; col += THREADS)
        y[col] = to_output(softmax_normalize(softmax_weight(to_float(x[col]), state.max), state));
}
