/* The memory traffic of each rung of the ladder, counted by the host device and compared to the byte with the formula
   in docs/kernels.md. One head of n queries and n keys, fp32, no mask. */
#include "helper_run.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

struct moved {
    int64_t read, written; /* elements of 4 bytes */
};

static int64_t tiles(int64_t n, int64_t tile) { return (n + tile - 1) / tile; }

static struct moved materialized(int64_t n, int64_t d, int64_t block) {
    int64_t t = tiles(n, block);
    struct moved scores = {2 * t * n * d, n * n}, weights = {2 * n * n, n * n + n};
    struct moved output = {tiles(d, block) * n * n + t * n * d, n * d};
    return (struct moved){scores.read + weights.read + output.read, scores.written + weights.written + output.written};
}

static struct moved multi_pass(int64_t n, int64_t d, int64_t block) {
    (void)block;
    return (struct moved){n * d + n * n * 3 * d, n * d + n};
}

static struct moved flash(int64_t n, int64_t d, int64_t block) {
    (void)block;
    return (struct moved){n * d + n * n * 2 * d, n * d + n};
}

/* Every visit of a key tile reads q, o and the state (two numbers, by each of the 8 lanes of a row). */
static struct moved kv_outer(int64_t n, int64_t d, int64_t block) {
    int64_t visits = tiles(n, block);
    return (struct moved){2 * n * d + visits * n * (2 * d + 16) + n * (d + 16), (visits + 1) * n * (d + 2) + n * d + n};
}

static struct moved q_outer(int64_t n, int64_t d, int64_t block) {
    return (struct moved){n * d + tiles(n, block) * n * 2 * d, n * d + n};
}

static struct moved measure(const char *schedule, int d, int n) {
    att_session *session = run_open();
    char problem[96];
    snprintf(problem, sizeof problem, "family=attention_forward dtype=fp32 head_dim=%d", d);
    att_kernel *kernel = run_find(session, problem, schedule);
    float *x = malloc(sizeof *x * (size_t)(n * d)), *o = malloc(sizeof *o * (size_t)(n * d));
    float *lse = malloc(sizeof *lse * (size_t)n);
    cr_assert(x && o && lse);
    unsigned seed = 1;
    run_fill(x, n * d, TOLERANCE_FP32, &seed);
    struct oracle_attention p = {x, x, x, 1, 1, 1, n, n, d, d, 0.25, .causal = false};
    struct att_counters counters = {.size = sizeof counters};
    run_attention(session, kernel, TOLERANCE_FP32, TOLERANCE_FP32, &p, o, lse, &counters);
    free(x);
    free(o);
    free(lse);
    att_close(session);
    return (struct moved){(int64_t)counters.global_read / 4, (int64_t)counters.global_written / 4};
}

Test(io_claims, every_rung_moves_what_its_formula_says) {
    const struct {
        const char *schedule;
        struct moved (*formula)(int64_t n, int64_t d, int64_t block);
        int64_t block;
    } rungs[] = {
        {"algorithm=materialized block_m=32 block_n=32", materialized, 32},
        {"algorithm=multi_pass", multi_pass, 1},
        {"algorithm=flash", flash, 1},
        {"algorithm=flash_tiled loop_order=kv_outer block_m=32 block_n=32", kv_outer, 32},
        {"algorithm=flash_tiled loop_order=q_outer block_m=32 block_n=32", q_outer, 32},
    };
    const int sizes[][2] = {{64, 16}, {160, 16}, {75, 40}}; /* n, head_dim; the last fits no tile */
    for (size_t i = 0; i < sizeof rungs / sizeof *rungs; i++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            int n = sizes[s][0], d = sizes[s][1];
            struct moved found = measure(rungs[i].schedule, d, n), expected = rungs[i].formula(n, d, rungs[i].block);
            cr_expect_eq(found.read, expected.read, "%s, n %d, d %d: read %lld elements, not %lld", rungs[i].schedule,
                         n, d, (long long)found.read, (long long)expected.read);
            cr_expect_eq(found.written, expected.written, "%s, n %d, d %d: wrote %lld elements, not %lld",
                         rungs[i].schedule, n, d, (long long)found.written, (long long)expected.written);
        }
}

/* The claim itself, without formulas: the matrix costs n^2 for any head_dim, and tiles divide n^2 d by block_m. */
Test(io_claims, materialized_is_quadratic_and_tiles_divide) {
    struct moved small = measure("algorithm=materialized block_m=64 block_n=64", 8, 64);
    struct moved large = measure("algorithm=materialized block_m=64 block_n=64", 8, 256);
    cr_assert_gt(small.written, 2 * 64 * 64);
    cr_assert_gt(large.read + large.written, 12 * (small.read + small.written)); /* 16 except for the n d terms */

    struct moved narrow =
        measure("algorithm=flash_tiled loop_order=q_outer block_m=16 block_n=32 thread_m=2 thread_n=4", 16, 256);
    struct moved wide =
        measure("algorithm=flash_tiled loop_order=q_outer block_m=64 block_n=32 thread_m=2 thread_n=4", 16, 256);
    int64_t once = 256 * 16; /* Q */
    cr_assert_eq(narrow.read - once, 4 * (wide.read - once));
    cr_assert_lt(wide.read + wide.written, large.read + large.written);
}
