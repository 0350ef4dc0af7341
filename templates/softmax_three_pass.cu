// Softmax of each row, in three passes: y = exp(x - m) / l with m = max x and l = sum exp(x - m).
// Subtracting the maximum makes it safe: every exponent is at most 0, so nothing overflows, and at least one term is 1,
// so the sum does not underflow. One block per row. Moves 4 elements per element: three reads, one write.
//$ default threads = 128
//$ tune threads in [32, 64, 128, 256, 512, 1024]
//$ require threads % 32 == 0
//$ let shared_bytes = 4 * threads / 32
//$ launch softmax_three_pass grid rows block threads shared shared_bytes
//$ include "params/softmax.h"
//$ include "sequence/element.cuh"
//$ include "fragment/softmax.cuh"

struct Shared {
    float partial[THREADS / 32];
};
static_assert(sizeof(Shared) == SHARED_BYTES, "as in the launch directive");

extern "C" __global__ void __launch_bounds__(THREADS) softmax_three_pass(const __grid_constant__ softmax_params p) {
    Shared &shared = *dynamic_shared<Shared>();
    const Input *x = static_cast<const Input *>(p.x) + blockIdx.x * p.x_row_stride; // (cols)
    Output *y = static_cast<Output *>(p.y) + blockIdx.x * p.y_row_stride;           // (cols), perhaps x itself

    // Pass 1: m = max x
    float max = -INFINITY;
    for (long long col = threadIdx.x; col < p.cols; col += THREADS)
        max = fmaxf(max, to_float(x[col]));
    max = block_reduce<float, larger>(max, shared.partial);

    // Pass 2: l = sum exp(x - m)
    float sum = 0;
    for (long long col = threadIdx.x; col < p.cols; col += THREADS)
        sum += softmax_weight(to_float(x[col]), max);
    sum = block_reduce<float, plus>(sum, shared.partial);

    // Pass 3: y = exp(x - m) / l. Each thread writes what only it reads, so y may be x.
    for (long long col = threadIdx.x; col < p.cols; col += THREADS)
        y[col] = to_output(softmax_normalize(softmax_weight(to_float(x[col]), max), {max, sum}));
}
