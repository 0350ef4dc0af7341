/* work: computations that the models of all kernels use. */
#include "work.h"

#include <math.h>

double work_overlap(const double *clocks, int count, double exponent) {
    double sum = 0, most = 0;
    for (int i = 0; i < count; i++)
        most = clocks[i] > most ? clocks[i] : most;
    for (int i = 0; i < count && most > 0; i++)
        sum += pow(clocks[i] / most, exponent);
    return most > 0 ? most * pow(sum, 1 / exponent) : 0;
}

double work_grid(const struct work *work) {
    struct shape shape = *work->shape;
    int64_t blocks;
    shape.sm_count = (int64_t)work->gpu->multiprocessors;
    shape.key_parts = (int64_t)work->parts;
    return plan_eval(&work->variant->grid, &shape, &blocks) ? (double)blocks : 0;
}

static double least(double a, double b, double c) { return fmin(a, fmin(b, c)); }

double work_resident(const struct work *work, double by_registers) {
    const struct model_gpu *gpu = work->gpu;
    double threads = fmax(32, work->variant->block_threads);
    if (work->usage && work->usage->registers > 0) /* allocated in units of 8 per thread */
        by_registers = floor(gpu->registers / (threads * 8 * work_cover(work->usage->registers, 8)));
    double fit = least(floor(gpu->shared_size / (work->variant->shared_bytes + gpu->shared_reserved)),
                       floor(gpu->threads / threads), by_registers);
    return fmax(1, fit);
}
