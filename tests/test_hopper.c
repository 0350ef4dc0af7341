/* The host device's Hopper units, with hand-written kernels: what they compute, and what they refuse. */
#include "helper_kernel.h"
#include "knobs.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHARED = 64 * 1024, SEEDS = 4 };

#define WORDS                                                                                                          \
    "struct alignas(64) tensor_map { unsigned long long word[16]; };\n"                                                \
    "struct Params { tensor_map in, out; float *y; };\n"                                                               \
    "using Barrier = unsigned long long;\n"                                                                            \
    "extern \"C\" __global__ void kernel(const Params p) {\n"                                                          \
    "unsigned char *shared = dynamic_shared<unsigned char>(); int t = threadIdx.x;\n"                                  \
    "Barrier *barrier = (Barrier *)(shared + 60000 / 8 * 8); (void)barrier; (void)t;\n"

struct params {
    alignas(64) unsigned char in[MAP_BYTES];
    alignas(64) unsigned char out[MAP_BYTES];
    float *y;
};

/* A tensor of 16-bit elements (batch, heads, rows, cols), dense. */
struct array {
    int cols, rows, heads, batch;
};
enum { BOX_ROWS = 16, BOX_COLS = 64 };

static size_t elements(const struct array *a) { return (size_t)a->cols * (size_t)(a->rows * a->heads * a->batch); }

/* Boxes of BOX_ROWS rows: `side` rows of one head, and as many heads as that makes. */
static void encode_heads(struct device *device, const struct array *a, int side, void *data, void *map) {
    struct map_request request = {
        .data = data,
        .dtype = dtype_bf16,
        .dim = {a->cols, a->rows, a->heads, a->batch},
        .stride = {a->cols, (int64_t)a->cols * a->rows, (int64_t)a->cols * a->rows * a->heads},
        .box = {BOX_COLS, side, BOX_ROWS / side}};
    cr_assert_eq(backend_host.encode_map(device->backend, &request, map, &device->failure), ATT_OK, "%s",
                 text_string(&device->failure.text));
}

static void encode(struct device *device, const struct array *a, void *data, void *map) {
    encode_heads(device, a, BOX_ROWS, data, map);
}

/* --- what is refused ----------------------------------------------------------------------------------------------- */

#define INIT(arrivals)                                                                                                 \
    "if (t == 0) { barrier_init(barrier, " #arrivals "); barrier_init_fence(); }\n"                                    \
    "__syncthreads();\n"
#define LOAD(place) "tma_load(" place ", &p.in, barrier, 0, 0, 0, 0);\n"

static const struct refusal {
    const char *name, *source;
    int threads;
    const char *words[3]; /* in the message; none = nothing to refuse */
} refusals[] = {
    {"intact",
     WORDS INIT(1) "if (t == 0) { barrier_expect(barrier, 2048); " LOAD("shared") "}\nbarrier_wait(barrier, 0);\n}\n",
     128,
     {0}},
    {"before init", WORDS "barrier_wait(barrier, 0);\n}\n", 32, {"byte 60000", "used before barrier_init"}},
    {"overwritten", WORDS INIT(32) "*barrier = 0; barrier_arrive(barrier);\n}\n", 32, {"was overwritten"}},
    {"no arrivals", WORDS "if (t == 0) barrier_init(barrier, 0);\n}\n", 32, {"expected 1 to"}},
    {"too many arrivals",
     WORDS INIT(1) "if (t == 0) { barrier_expect(barrier, 16); barrier_arrive(barrier); }\n}\n",
     32,
     {"all 1 of phase 0 are there already"}},
    {"an arrival too few",
     WORDS INIT(33) "barrier_arrive(barrier);\nbarrier_wait(barrier, 0);\n}\n",
     32,
     {"deadlock", "threads 0 to 31 wait in barrier_wait(), line", "phase 0, misses 1 of 33 arrivals and 0 bytes"}},
    {"bytes too few",
     WORDS INIT(1) "if (t == 0) { barrier_expect(barrier, 2049); " LOAD("shared") "}\nbarrier_wait(barrier, 0);\n}\n",
     32,
     {"deadlock", "misses 0 of 1 arrivals and 1 bytes"}},
    {"too many bytes", WORDS INIT(1) "if (t == 0) barrier_expect(barrier, 1 << 20);\n}\n", 32, {"at most 1048575"}},
    {"bytes never waited for",
     WORDS INIT(2) "if (t == 0) { barrier_expect(barrier, 4096); " LOAD("shared") "}\n}\n",
     32,
     {"2048 bytes were still expected by the barrier at byte 60000"}},
    {"no such parity", WORDS INIT(1) "barrier_wait(barrier, 2);\n}\n", 32, {"parity 2, expected 0 or 1"}},
    {"misaligned target", WORDS INIT(1) "if (t == 0) " LOAD("shared + 64") "}\n", 32, {"tma_load", "multiple of 128"}},
    {"past shared memory", WORDS INIT(1) "if (t == 0) " LOAD("shared + 65408") "}\n", 32, {"tma_load: 2048 bytes at"}},
    {"no map",
     WORDS INIT(1) "tensor_map none = {}; if (t == 0) tma_load(shared, &none, barrier, 0, 0, 0, 0);\n}\n",
     32,
     {"is no tensor map"}},
    {"store before the tensor",
     WORDS "if (t == 0) tma_store(&p.out, shared, 0, -1, 0, 0);\n}\n",
     32,
     {"(0, -1, 0, 0)", "expected 0 or more"}},
    {"store not committed",
     WORDS "if (t == 0) tma_store(&p.out, shared, 0, 0, 0, 0);\n}\n",
     32,
     {"ended with 1 tma_store or tma_add that it has not committed"}},
    {"store not waited for",
     WORDS "if (t == 0) { tma_store(&p.out, shared, 0, 0, 0, 0); tma_store_commit(); }\n}\n",
     32,
     {"ended with 1 tma_store or tma_add that it has not waited for"}},
    {"sums that are misaligned",
     WORDS "if (t == 0) tma_add((float *)p.y + 1, shared, 64);\n}\n",
     32,
     {"tma_add: 64 bytes at byte 0", "multiples of 16"}},
    {"sums past shared memory",
     WORDS "if (t == 0) tma_add((float *)p.y, shared + 65504, 64);\n}\n",
     32,
     {"tma_add: 64 bytes at byte 65504"}},
    {"sums past a buffer",
     WORDS "if (t == 0) tma_add((float *)p.y, shared, 32768);\n}\n",
     32,
     {"out of bounds: tma_add: the 32768 bytes"}},
    {"sums not waited for",
     WORDS "if (t == 0) { tma_add((float *)p.y, shared, 16); tma_store_commit(); }\n}\n",
     32,
     {"ended with 1 tma_store or tma_add that it has not waited for"}},
    {"stored floats past a buffer",
     WORDS "if (t == 0) tma_store_floats((float *)p.y, shared, 32768);\n}\n",
     32,
     {"out of bounds: tma_store_floats: the 32768 bytes"}},
    {"floats that are misaligned",
     WORDS INIT(1) "if (t == 0) tma_load_floats((float *)shared, p.y + 1, 64, barrier);\n}\n",
     32,
     {"tma_load_floats: 64 bytes at byte 0", "multiples of 16"}},
    {"floats past shared memory",
     WORDS INIT(1) "if (t == 0) tma_load_floats((float *)(shared + 65504), p.y, 64, barrier);\n}\n",
     32,
     {"tma_load_floats: 64 bytes at byte 65504"}},
    {"floats past a buffer",
     WORDS INIT(1) "if (t == 0) tma_load_floats((float *)shared, p.y, 32768, barrier);\n}\n",
     32,
     {"out of bounds: tma_load_floats: the 32768 bytes"}},
    {"floats never waited for",
     WORDS INIT(
         2) "if (t == 0) { barrier_expect(barrier, 32); tma_load_floats((float *)shared, p.y, 16, barrier); }\n}\n",
     32,
     {"16 bytes were still expected by the barrier at byte 60000"}},
    {"named barrier, one too few",
     WORDS "if (t < 32) named_barrier_sync(3, 64);\n}\n",
     64,
     {"deadlock", "barrier 3, 32 of 64 threads have arrived"}},
    {"named barrier, nobody waits",
     WORDS "if (t < 32) named_barrier_arrive(3, 64);\n}\n",
     64,
     {"ended while barrier 3 waited: 32 of 64"}},
    {"named barrier, counts differ",
     WORDS "named_barrier_sync(3, t < 32 ? 64 : 96);\n}\n",
     96,
     {"of barrier 3 for", "threads, but for"}},
    {"named barrier 16", WORDS "named_barrier_sync(16, 32);\n}\n", 32, {"expected 1 to 15"}},
    {"registers that nobody gives",
     WORDS "if (t < 128) registers_release<40>(); else registers_acquire<240>();\n}\n",
     384,
     {"deadlock", "registers_acquire()", "240 wanted by a thread that has 168"}},
    {"registers that fit", WORDS "if (t < 128) registers_release<24>(); else registers_acquire<240>();\n}\n", 384, {0}},
    {"registers in steps", WORDS "registers_release<30>();\n}\n", 128, {"multiple of 8 from 24 to 256"}},
    {"release of more", WORDS "registers_release<200>();\n}\n", 384, {"of 200, but the thread has 168"}},
    {"product without fence",
     WORDS "float s[4]; wgmma_ss_nt<8, 1, true>(s, matrix_descriptor(shared, 0), matrix_descriptor(shared, 0));\n}\n",
     128,
     {"without a wgmma_fence"}},
    {"product not waited for",
     WORDS
     "float s[4]; wgmma_fence();\n"
     "wgmma_ss_nt<8, 1, true>(s, matrix_descriptor(shared, 0), matrix_descriptor(shared, 0));\nwgmma_commit();\n}\n",
     128,
     {"wgmma_wait is missing"}},
    {"product by half a warpgroup",
     WORDS "float s[4]; wgmma_fence(); if (t < 64) {\n"
           "wgmma_ss_nt<8, 1, true>(s, matrix_descriptor(shared, 0), matrix_descriptor(shared, 0));\nwgmma_commit();\n"
           "wgmma_wait<0>(); }\n}\n",
     128,
     {"deadlock", "wgmma_wait(), line", "product 1, issued by 64 of 128"}},
    {"products that differ",
     WORDS "float s[4]; wgmma_fence();\n"
           "wgmma_ss_nt<8, 1, true>(s, matrix_descriptor(shared, 0), matrix_descriptor(shared + t / 64 * 1024, 0));\n"
           "wgmma_commit(); wgmma_wait<0>();\n}\n",
     128,
     {"issues a different product"}},
    {"operand past shared memory",
     WORDS "float s[4]; wgmma_fence();\n"
           "wgmma_ss_nt<8, 1, true>(s, matrix_descriptor(shared + 57 * 1024, 0), matrix_descriptor(shared, 0));\n}\n",
     128,
     {"wgmma: a reaches to byte"}},
    {"operand without swizzle",
     WORDS "float s[4]; wgmma_fence(); wgmma_ss_nt<8, 1, true>(s, 0, 0);\n}\n",
     128,
     {"descriptor of a: swizzle 0"}},
};

Test(hopper, what_the_hardware_would_answer_with_a_hang_or_garbage_is_refused) {
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        for (int seed = 0; seed < SEEDS; seed++) {
            const struct refusal *refusal = &refusals[i];
            struct device device = device_open(seed % 2 ? ATT_HOST_CHECK : ATT_HOST_FAST, (uint64_t)seed);
            const struct array array = {64, 16, 1, 1};
            struct params params;
            struct kernel kernel = {refusal->source, 1, refusal->threads, SHARED};
            encode(&device, &array, device_buffer(&device, 2 * elements(&array), NULL), params.in);
            encode(&device, &array, device_buffer(&device, 2 * elements(&array), NULL), params.out);
            params.y = device_buffer(&device, 1024, NULL);
            enum att_status status = device_run(&device, &kernel, &params, sizeof params);
            const char *message = text_string(&device.failure.text);
            cr_expect_eq(status, refusal->words[0] ? ATT_LAUNCH_FAILED : ATT_OK, "%s, seed %d: %s", refusal->name, seed,
                         message);
            for (int w = 0; w < 3 && refusal->words[w]; w++)
                cr_expect(strstr(message, refusal->words[w]), "%s, seed %d: expected \"%s\" in: %s", refusal->name,
                          seed, refusal->words[w], message);
            device_close(&device);
        }
}

/* Blocks take numbers and wait for their turn. */
#define COUNTERS                                                                                                       \
    "struct Params { int *taken, *done, *order; };\n"                                                                  \
    "extern \"C\" __global__ void kernel(const Params p) {\n"                                                          \
    "for (;;) {\n"                                                                                                     \
    "const int n = __shfl_sync(~0u, threadIdx.x == 0 ? atomicAdd(p.taken, 1) : 0, 0);\n"                               \
    "if (n >= 40) return;\n"                                                                                           \
    "if (threadIdx.x == 0) {\n"
enum { NUMBERS = 40, BLOCKS = 7 };

static enum att_status run_in_order(const char *source, int mode, uint64_t seed, int order[NUMBERS + 1], char *message,
                                    size_t room) {
    const struct kernel kernel = {source, BLOCKS, 32, SHARED};
    struct device device = device_open((enum att_host_mode)mode, seed);
    static const int zeros[NUMBERS + 1];
    struct {
        int *taken, *done, *order;
    } p = {device_buffer(&device, sizeof(int), zeros), device_buffer(&device, sizeof zeros, zeros),
           device_buffer(&device, sizeof zeros, zeros)};
    const enum att_status status = device_run(&device, &kernel, &p, sizeof p);
    memcpy(order, p.order, sizeof zeros);
    snprintf(message, room, "%s", text_string(&device.failure.text));
    device_close(&device);
    return status;
}

Test(hopper, a_thread_waits_for_a_counter_that_other_blocks_advance) {
    static const char *const in_order = COUNTERS
        "for (volatile int i = 0; i < (n % 2 ? 0 : 499999); i = i + 1) {}\n" /* odd numbers wait for even ones */
        "await_count(p.done, n);\n"
        "p.order[*p.order + 1] = n; ++*p.order;\n" /* a race unless the counter orders it */
        "atomic_add_acq_rel(p.done, 1); } } }\n";
    char message[1024];
    int order[NUMBERS + 1];
    for (int seed = 0; seed < 2 * SEEDS; seed++) {
        cr_expect_eq(run_in_order(in_order, seed % 2 ? ATT_HOST_CHECK : ATT_HOST_FAST, (uint64_t)(seed / 2), order,
                                  message, sizeof message),
                     ATT_OK, "seed %d: %s", seed / 2, message);
        cr_expect_eq(order[0], NUMBERS);
        for (int i = 0; i < NUMBERS; i++)
            cr_expect_eq(order[i + 1], i, "seed %d, number %d: %d", seed / 2, i, order[i + 1]);
    }
}

Test(hopper, a_thread_waits_for_a_counter_that_its_own_block_advances) {
    static const char *const kernel =
        "struct Params { int *taken, *done, *order; };\n"
        "extern \"C\" __global__ void kernel(const Params p) {\n"
        "if (threadIdx.x == 0) { await_count(p.done + blockIdx.x, 31); p.order[blockIdx.x] = 1; }\n"
        "else atomic_add_acq_rel(p.done + blockIdx.x, 1);\n}\n";
    char message[1024];
    int order[NUMBERS + 1];
    for (int seed = 0; seed < SEEDS; seed++) {
        cr_expect_eq(run_in_order(kernel, ATT_HOST_FAST, (uint64_t)seed, order, message, sizeof message), ATT_OK, "%s",
                     message);
        for (int i = 0; i < BLOCKS; i++)
            cr_expect_eq(order[i], 1);
    }
}

Test(hopper, a_counter_that_nobody_will_advance_is_a_deadlock) {
    static const char *const never =
        COUNTERS "await_count(p.done, n == 30 ? 31 : n); atomic_add_acq_rel(p.done, 1); } } }\n";
    char message[1024];
    int order[NUMBERS + 1];
    for (int seed = 0; seed < SEEDS; seed++) {
        cr_expect_eq(run_in_order(never, ATT_HOST_FAST, (uint64_t)seed, order, message, sizeof message),
                     ATT_LAUNCH_FAILED, "seed %d", seed);
        cr_expect(strstr(message, "deadlock") && strstr(message, "waits in await_count(), line"), "%s", message);
        cr_expect(strstr(message, "the counter is 30, expected 3"), "%s", message); /* 31 and more */
    }
}

/* Warp 3 looks for phase 0 at some time. Warps 0 to 2 do not wait for that before they let the barrier complete two
   more phases, but they have much to do first. */
#define ROUNDS                                                                                                         \
    WORDS INIT(1) "if (t == 0) barrier_arrive(barrier);\nbarrier_wait(barrier, 0);\n"                                  \
                  "if (t < 96) for (int i = 0; i < 20; i++) named_barrier_sync(1, 96);\n"
static const char too_early[] = ROUNDS "if (t == 0) barrier_arrive(barrier);\n__syncthreads();\n}\n";
static const char in_time[] = ROUNDS "__syncthreads();\nif (t == 0) barrier_arrive(barrier);\n}\n";

Test(hopper, a_phase_that_is_over_before_a_late_warp_looks_is_found) {
    int found = 0;
    for (int seed = 3; seed < 12; seed += seed % 3 == 2 ? 4 : 1) { /* those that hold a warp back */
        struct device device = device_open(ATT_HOST_FAST, (uint64_t)seed);
        struct params params = {0};
        struct kernel kernel = {in_time, 1, 128, SHARED};
        cr_expect_eq(device_run(&device, &kernel, &params, sizeof params), ATT_OK, "seed %d: %s", seed,
                     text_string(&device.failure.text));
        kernel.source = too_early;
        if (device_run(&device, &kernel, &params, sizeof params) != ATT_OK) {
            const char *message = text_string(&device.failure.text);
            cr_expect(strstr(message, "deadlock") && strstr(message, "barrier_wait()") && strstr(message, "phase 2"),
                      "seed %d: %s", seed, message);
            found++;
        }
        device_close(&device);
    }
    cr_expect_gt(found, 0);
}

/* --- boxes --------------------------------------------------------------------------------------------------------- */

static const char copy_box[] =
    WORDS "unsigned short *place = (unsigned short *)(shared + 3 * 128); int *at = (int *)p.y;\n" INIT(
        1) "if (t == 0) { barrier_expect(barrier, 2048); tma_load(place, &p.in, barrier, at[0], at[1], at[2], at[3]); "
           "}\n"
           "barrier_wait(barrier, 0);\n"
           /* undo the swizzle, add one to each element's bits, and swizzle again */
           "for (int i = t; i < 1024; i += 32) {\n"
           "    int byte = 3 * 128 + 2 * i; unsigned short *x = (unsigned short *)(shared + (byte ^ (byte / 128 % 8) * "
           "16));\n"
           "    *x += i + 1;\n"
           "}\n"
           "fence_async(); __syncthreads();\n"
           "if (t == 0) { tma_store(&p.out, place, at[4], at[5], at[6], at[7]); tma_store_commit(); "
           "tma_store_wait_read(); }\n"
           "}\n";

/* Returns element (col, row) of the box at `place`, or -1 outside the array. */
static long find(const struct array *a, int side, const int place[4], int row, int col) {
    int c = place[0] + col, r = place[1] + row % side, h = place[2] + row / side;
    if (c < 0 || c >= a->cols || r < 0 || r >= a->rows || h < 0 || h >= a->heads || place[3] < 0 ||
        place[3] >= a->batch)
        return -1;
    return ((long)(place[3] * a->heads + h) * a->rows + r) * a->cols + c;
}

static void check_boxes(int side) {
    static const struct array array = {72, 20, 2, 3};
    static const int places[][8] = {
        {0, 0, 0, 0, 0, 0, 0, 0},   {64, 0, 1, 2, 64, 16, 1, 0},  {8, 4, 1, 1, 8, 4, 0, 2},
        {-3, -5, 0, 1, 0, 0, 1, 1}, {72, 0, 0, 0, 0, 20, 0, 0},   {0, 19, 1, 2, 71, 19, 1, 2},
        {0, 0, 2, 0, 0, 0, 0, 3},   {0, -16, 0, 0, 64, 10, 1, 2}, {0, 0, -1, 0, 0, 0, 2, 0},
    };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        for (int seed = 0; seed < SEEDS; seed++) {
            struct device device = device_open(seed % 2 ? ATT_HOST_CHECK : ATT_HOST_FAST, (uint64_t)seed);
            size_t count = elements(&array), bytes = count * sizeof(uint16_t);
            uint16_t *in = malloc(bytes), *out = malloc(bytes), *expected = malloc(bytes);
            for (size_t e = 0; e < count; e++) {
                in[e] = (uint16_t)(3 * e + 1);
                out[e] = expected[e] = (uint16_t)(7 * e);
            }
            for (int row = 0; row < BOX_ROWS; row++)
                for (int col = 0; col < BOX_COLS; col++) {
                    long from = find(&array, side, places[i], row, col),
                         to = find(&array, side, places[i] + 4, row, col);
                    if (to >= 0)
                        expected[to] = (uint16_t)((from >= 0 ? in[from] : 0) + row * BOX_COLS + col + 1);
                }
            struct params params;
            void *target = device_buffer(&device, bytes, out);
            encode_heads(&device, &array, side, device_buffer(&device, bytes, in), params.in);
            encode_heads(&device, &array, side, target, params.out);
            params.y = device_buffer(&device, sizeof *places, places[i]);
            struct kernel kernel = {copy_box, 1, 32, SHARED};
            cr_expect_eq(device_run(&device, &kernel, &params, sizeof params), ATT_OK,
                         "box %zu of %d rows, seed %d: %s", i, side, seed, text_string(&device.failure.text));
            backend_host.copy_out(device.backend, out, target, bytes, &device.failure);
            cr_expect_arr_eq(out, expected, bytes, "box %zu of %d rows, seed %d", i, side, seed);
            free(in);
            free(out);
            free(expected);
            device_close(&device);
        }
}

Test(hopper, boxes_are_copied_swizzled_and_cut_at_the_edges) {
    for (int side = BOX_ROWS; side; side = side == BOX_ROWS ? 8 : 0) /* 8: two heads per box */
        check_boxes(side);
}

/* Runs a kernel of three blocks on floats that are all `before`, and compares them with `expected`, which may be NaN. */
enum { FLOATS = 136 };
static void check_floats(const char *source, float before, const float expected[FLOATS]) {
    for (int seed = 0; seed < SEEDS; seed++) {
        struct device device = device_open(seed % 2 ? ATT_HOST_CHECK : ATT_HOST_FAST, (uint64_t)seed);
        float floats[FLOATS];
        for (int i = 0; i < FLOATS; i++)
            floats[i] = before;
        struct params params;
        params.y = device_buffer(&device, sizeof floats, floats);
        struct kernel kernel = {source, 3, 32, SHARED};
        cr_assert_eq(device_run(&device, &kernel, &params, sizeof params), ATT_OK, "%s",
                     text_string(&device.failure.text));
        const float *found = params.y;
        for (int i = 0; i < FLOATS; i++)
            cr_expect(found[i] == expected[i] || (isnan(found[i]) && isnan(expected[i])), "seed %d, %d: %g", seed, i,
                      (double)found[i]);
        device_close(&device);
    }
}

/* Each of three blocks adds its number to floats 4 to 131, then overwrites what it has added. */
static const char add[] =
    WORDS "float *place = (float *)(shared + 80);\n"
          "for (int i = t; i < 128; i += 32) place[i] = blockIdx.x + i + 1;\n"
          "fence_async(); __syncwarp();\n"
          "if (t == 0) { tma_add(p.y + 4, place, 512); tma_store_commit(); tma_store_wait_read(); }\n"
          "__syncwarp();\n"
          "for (int i = t; i < 128; i += 32) place[i] = -1000;\n"
          "}\n";

Test(hopper, floats_are_added_by_all_blocks) {
    float expected[FLOATS];
    for (int i = 0; i < FLOATS; i++)
        expected[i] = i >= 4 && i < 132 ? 0.5f + 6 + 3 * (float)(i - 4) : 0.5f;
    check_floats(add, 0.5f, expected);
}

/* Each of three blocks stores 32 floats, whatever was there before, then overwrites what it has stored. */
static const char store[] = WORDS "float *place = (float *)(shared + 80);\n"
                                  "place[t] = 100 * blockIdx.x + t;\n"
                                  "fence_async(); __syncwarp();\n"
                                  "if (t == 0) { tma_store_floats(p.y + 4 + 32 * blockIdx.x, place, 128); "
                                  "tma_store_commit(); tma_store_wait_read(); }\n"
                                  "__syncwarp();\n"
                                  "place[t] = -1000;\n"
                                  "}\n";

Test(hopper, floats_are_stored_by_all_blocks) {
    float expected[FLOATS];
    for (int i = 0; i < FLOATS; i++)
        expected[i] = i >= 4 && i < 100 ? (float)(100 * ((i - 4) / 32) + (i - 4) % 32) : NAN;
    check_floats(store, NAN, expected);
}

/* Thread 0 loads 32 floats; they are NaN until the barrier says that they are there. */
static const char load[] =
    WORDS INIT(1) "float *place = (float *)(shared + 80);\n"
                  "if (t == 0) { barrier_expect(barrier, 128); tma_load_floats(place, p.y + 4, 128, barrier); }\n"
                  "barrier_wait(barrier, 0);\n"
                  "p.y[40 + t] = place[t];\n"
                  "}\n";

Test(hopper, floats_are_loaded) {
    for (int seed = 0; seed < SEEDS; seed++) {
        struct device device = device_open(seed % 2 ? ATT_HOST_CHECK : ATT_HOST_FAST, (uint64_t)seed);
        float values[72];
        for (int i = 0; i < 72; i++)
            values[i] = (float)i;
        struct params params;
        params.y = device_buffer(&device, sizeof values, values);
        struct kernel kernel = {load, 1, 32, SHARED};
        cr_assert_eq(device_run(&device, &kernel, &params, sizeof params), ATT_OK, "%s",
                     text_string(&device.failure.text));
        const float *found = params.y;
        for (int i = 0; i < 32; i++)
            cr_expect_eq(found[40 + i], (float)(4 + i), "seed %d, %d: %g", seed, i, (double)found[40 + i]);
        device_close(&device);
    }
}

Test(hopper, a_box_outside_of_the_buffer_is_refused) {
    struct device device = device_open(ATT_HOST_FAST, 0);
    static const struct array there = {64, 16, 1, 1}, claimed = {64, 17, 1, 1};
    static const int place[8] = {0, 1, 0, 0, 0, 0, 0, 0};
    struct params params;
    encode(&device, &claimed, device_buffer(&device, 2 * elements(&there), NULL), params.in);
    encode(&device, &there, device_buffer(&device, 2 * elements(&there), NULL), params.out);
    params.y = device_buffer(&device, sizeof place, place);
    struct kernel kernel = {copy_box, 1, 32, SHARED};
    cr_expect_eq(device_run(&device, &kernel, &params, sizeof params), ATT_LAUNCH_FAILED);
    cr_expect(strstr(text_string(&device.failure.text), "out of bounds: tma_load"), "%s",
              text_string(&device.failure.text));
    device_close(&device);
}

Test(hopper, a_map_keeps_the_rules_of_the_hardware) {
    static float data[16];
    const struct map_request good = {
        .data = data, .dtype = dtype_bf16, .dim = {64, 2, 2, 2}, .stride = {64, 128, 256}, .box = {64, 256, 1}};
    struct map_request cases[10];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cases[i] = good;
    cases[0].data = (char *)data + 8;
    cases[1].dim[1] = 0;
    cases[2].dim[2] = ((int64_t)1 << 32) + 1;
    cases[3].stride[0] = 4;
    cases[4].stride[2] = (int64_t)1 << 39;
    cases[5].box[1] = 257;
    cases[6].box[0] = 72;
    cases[7].box[0] = 4;
    cases[8].stride[1] = -8;
    cases[9].box[2] = 0;
    struct device device = device_open(ATT_HOST_FAST, 0);
    alignas(64) unsigned char map[MAP_BYTES];
    cr_expect_eq(backend_host.encode_map(device.backend, &good, map, &device.failure), ATT_OK);
    cr_expect_neq(backend_host.encode_map(device.backend, &good, map + 16, &device.failure), ATT_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        failure_clear(&device.failure);
        cr_expect_neq(backend_host.encode_map(device.backend, &cases[i], map, &device.failure), ATT_OK, "case %zu", i);
    }
    device_close(&device);
}

/* --- products ------------------------------------------------------------------------------------------------------ */

/* S = A (64, 32) B (N, 32)^T in two steps; then O = 1 + S C (N, M). The constants N, M, BF and OTHER precede
   this text. A is in shared memory and S in registers, or the other way round. A tile of R rows is stored in
   panels of 64 columns. */
static const char multiply[] = WORDS
    "unsigned short *a = (unsigned short *)shared, *b = a + 64 * 64, *c = b + N * 64, *panel;\n"
    "auto put = [&](unsigned short *tile, int rows, int row, int col, float x) {\n"
    "    int byte = (int)((unsigned char *)tile - shared) + col / 64 * rows * 128 + row * 128 + col % 64 * 2;\n"
    "    panel = (unsigned short *)(shared + (byte ^ (byte / 128 % 8) * 16));\n"
    "    *panel = BF ? float_to_bfloat16(x) : float_to_half(x);\n"
    "};\n"
    "for (int i = t; i < 64 * 32; i += 128) put(a, 64, i / 32, i % 32, p.y[i]);\n"
    "for (int i = t; i < N * 32; i += 128) put(b, N, i / 32, i % 32, p.y[2048 + i]);\n"
    "for (int i = t; i < N * M; i += 128) put(c, N, i / M, i % M, p.y[2048 + N * 32 + i]);\n"
    "fence_async(); __syncthreads();\n"
    "float s[N / 2], o[M / 2]; unsigned w[N / 16][4]; for (float &x : o) x = 1;\n"
    "unsigned fragment[2][4];\n"
    "int row = t / 32 * 16 + t % 16, chunk = t % 32 / 16;\n"
    "for (int k = 0; k < 2; k++) load_matrices(fragment[k], a + row * 64 + ((2 * k + chunk) ^ row % 8) * 8);\n"
    "wgmma_fence();\n"
    "if (OTHER) wgmma_rs_nt<N, 2, BF>(s, fragment, matrix_descriptor(b, 0));\n"
    "else wgmma_ss_nt<N, 2, BF>(s, matrix_descriptor(a, 0), matrix_descriptor(b, 0));\n"
    "wgmma_commit();\n"
    "bool poisoned = s[0] != s[0] && s[N / 2 - 1] != s[N / 2 - 1];\n"
    "wgmma_wait<0>(); wgmma_settle(s);\n"
    "for (int i = 0; i < N / 4; i++) w[i / 4][i % 4] = pack<BF>(s[2 * i], s[2 * i + 1]);\n"
    "unsigned short *p_tile = c + (M + 63) / 64 * N * 64;\n"
    "for (int k = 0; k < N / 16; k++)\n"
    "    store_matrices(p_tile + k / 4 * 4096 + row * 64 + ((2 * k % 8 + chunk) ^ row % 8) * 8, w[k][0], w[k][1], "
    "w[k][2], w[k][3]);\n"
    "fence_async(); __syncthreads();\n"
    "wgmma_fence();\n"
    "if (OTHER) wgmma_ss_nn<M, N / 16, BF>(o, matrix_descriptor(p_tile, 0), matrix_descriptor(c, N * 128));\n"
    "else wgmma_rs_nn<M, N / 16, BF>(o, w, matrix_descriptor(c, N * 128));\n"
    "wgmma_commit(); wgmma_wait<0>();\n"
    "float *out = p.y + 2048 + N * 32 + N * M;\n"
    "for (int i = 0; i < M / 2; i++)\n"
    "    out[(t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8) * M + i / 4 * 8 + t % 4 * 2 + i % 2] =\n"
    "        poisoned ? o[i] : -1e30f;\n"
    "}\n";

static void check_product(int n, int m, bool bfloat16, bool other, int seed) {
    size_t count = (size_t)(2048 + n * 32 + n * m + 64 * m);
    float *y = calloc(count, sizeof *y), *a = y, *b = y + 2048, *c = b + n * 32, *out = c + n * m;
    for (int i = 0; i < 2048 + n * 32 + n * m; i++) /* small integers: every sum is exact */
        y[i] = (float)((i * 7 + i / 13) % 3 - 1);
    char source[8192];
    snprintf(source, sizeof source, "constexpr int N = %d, M = %d; constexpr bool BF = %d, OTHER = %d;\n%s", n, m,
             bfloat16, other, multiply);
    struct device device = device_open(seed % 2 ? ATT_HOST_CHECK : ATT_HOST_FAST, (uint64_t)seed);
    struct params params = {.y = device_buffer(&device, count * sizeof *y, y)};
    struct kernel kernel = {source, 1, 128, 128 * 1024};
    cr_expect_eq(device_run(&device, &kernel, &params, sizeof params), ATT_OK, "%d x %d: %s", n, m,
                 text_string(&device.failure.text));
    backend_host.copy_out(device.backend, y, params.y, count * sizeof *y, &device.failure);
    int wrong = 0;
    for (int row = 0; row < 64; row++)
        for (int col = 0; col < m; col++) {
            float sum = 1;
            for (int j = 0; j < n; j++) {
                float score = 0;
                for (int k = 0; k < 32; k++)
                    score += a[row * 32 + k] * b[j * 32 + k];
                sum += score * c[j * m + col];
            }
            wrong += out[row * m + col] != sum;
        }
    cr_expect_eq(wrong, 0, "64 x %d x %d, bfloat16 %d, seed %d: %d wrong", n, m, bfloat16, seed, wrong);
    free(y);
    device_close(&device);
}

Test(hopper, products_are_right_and_registers_poisoned_until_the_wait) {
    static const struct { int n, m; } sizes[] = {{16, 8}, {64, 64}, {80, 72}, {176, 136}, {128, 256}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int seed = 0; seed < SEEDS; seed++)
            check_product(sizes[i].n, sizes[i].m, seed >= SEEDS / 2, (seed + i) % 2, seed);
}

/* All kinds of 16-bit values: subnormals, the largest, infinity, NaN. */
Test(hopper, operands_are_widened_exactly) {
    static const char source[] =
        WORDS "unsigned short *a = (unsigned short *)shared, *b = a + 64 * 64; const int *in = (const int *)p.y;\n"
              "for (int i = t; i < 64 * 64 + 8 * 64; i += 128) a[i] = 0;\n"
              "__syncthreads();\n"
              "if (t < 64) a[(t * 128 ^ t % 8 * 16) / 2] = in[t];\n" /* a (row, 0) = element */
              "if (t < 8) b[(t * 128 ^ t % 8 * 16) / 2] = in[64];\n" /* b (column, 0) = 1 */
              "fence_async(); __syncthreads();\n"
              "float s[4]; wgmma_fence(); wgmma_ss_nt<8, 1, BF>(s, matrix_descriptor(a, 0), matrix_descriptor(b, 0));\n"
              "wgmma_commit(); wgmma_wait<0>();\n"
              "if (t % 4 == 0) p.y[t / 32 * 16 + t % 32 / 4] = s[0], p.y[t / 32 * 16 + t % 32 / 4 + 8] = s[2];\n}\n";
    static const unsigned short half[] = {0x0000, 0x0001, 0x8001, 0x03ff, 0x0400,
                                          0x3c00, 0xbc01, 0x7bff, 0x7c00, 0xfc00};
    static const float half_value[] = {0, 0x1p-24f,    -0x1p-24f, 0x1.ff8p-15f, 0x1p-14f,
                                       1, -0x1.004p0f, 65504,     INFINITY,     -INFINITY};
    static const unsigned short brain[] = {0x0000, 0x0001, 0x3f80, 0xbf81, 0x7f7f, 0x7f80, 0xff80};
    static const float brain_value[] = {0, 0x1p-133f, 1, -0x1.02p0f, 0x1.fep127f, INFINITY, -INFINITY};
    for (int bfloat16 = 0; bfloat16 < 2; bfloat16++) {
        int known = bfloat16 ? sizeof brain / sizeof *brain : sizeof half / sizeof *half;
        int in[65] = {0};
        float out[64];
        for (int i = 0; i < known; i++)
            in[i] = bfloat16 ? brain[i] : half[i];
        in[63] = bfloat16 ? 0x7fc0 : 0x7e00;
        in[64] = bfloat16 ? 0x3f80 : 0x3c00;
        char text[8192];
        snprintf(text, sizeof text, "constexpr bool BF = %d;\n%s", bfloat16, source);
        struct device device = device_open(ATT_HOST_CHECK, 0);
        struct params params = {.y = device_buffer(&device, sizeof in, in)};
        struct kernel kernel = {text, 1, 128, SHARED};
        cr_expect_eq(device_run(&device, &kernel, &params, sizeof params), ATT_OK, "%s",
                     text_string(&device.failure.text));
        backend_host.copy_out(device.backend, out, params.y, sizeof out, &device.failure);
        for (int i = 0; i < known; i++) {
            float expected = bfloat16 ? brain_value[i] : half_value[i];
            cr_expect_eq(out[i], expected, "element %d: %g, expected %g", i, (double)out[i], (double)expected);
        }
        cr_expect(isnan(out[63]));
        device_close(&device);
    }
}

/* stmatrix: lane 8 j + i names row i of matrix j. */
Test(hopper, matrices_are_stored_by_rows) {
    static const char source[] = WORDS "int lane = t % 32; unsigned short *row = (unsigned short *)shared + lane * 8;\n"
                                       "auto pair = [&](int j) { return (unsigned)(1000 * j + 8 * (lane / 4) + 2 * "
                                       "(lane % 4)) * 0x10001u + 0x10000u; };\n"
                                       "store_matrices(row, pair(0), pair(1), pair(2), pair(3));\n"
                                       "__syncthreads();\n"
                                       "for (int i = t; i < 256; i += 32) p.y[i] = ((unsigned short *)shared)[i];\n}\n";
    struct device device = device_open(ATT_HOST_CHECK, 0);
    float out[256];
    struct params params = {.y = device_buffer(&device, sizeof out, NULL)};
    struct kernel kernel = {source, 1, 32, SHARED};
    cr_assert_eq(device_run(&device, &kernel, &params, sizeof params), ATT_OK, "%s", text_string(&device.failure.text));
    backend_host.copy_out(device.backend, out, params.y, sizeof out, &device.failure);
    for (int i = 0; i < 256; i++)
        cr_expect_eq(out[i], (float)(1000 * (i / 64) + i % 64), "element %d: %g", i, (double)out[i]);
    device_close(&device);
}
