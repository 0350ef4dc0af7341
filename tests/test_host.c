/* The host device must run kernels as a GPU would, and report what a GPU would leave to chance. */
#include "helper_kernel.h"

#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LENGTH(array) (sizeof(array) / sizeof *(array))

static const enum att_host_mode modes[] = {ATT_HOST_CHECK, ATT_HOST_FAST};

/* The parameters of most kernels here: x and y of n elements each. */
struct params {
    const void *x;
    void *y;
    long long n;
};
#define PARAMS "struct Params { const float *x; float *y; long long n; };\n"
#define KERNEL PARAMS "extern \"C\" __global__ void kernel(const __grid_constant__ Params p) {\n"

static bool has(const struct device *device, const char *words) {
    return strstr(text_string(&device->failure.text), words) != NULL;
}

/* --- results and counts -------------------------------------------------------------------------------------------- */

static const char sum_source[] = PARAMS "struct Shared { float part[4]; };\n"
                                        "extern \"C\" __global__ void __launch_bounds__(128)\n"
                                        "    kernel(const __grid_constant__ Params p) {\n"
                                        "    Shared &tile = *dynamic_shared<Shared>();\n"
                                        "    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
                                        "    float sum = i < p.n ? p.x[i] : 0.0f;\n"
                                        "    for (int lanes = 16; lanes > 0; lanes /= 2)\n"
                                        "        sum += __shfl_xor_sync(0xffffffffu, sum, lanes);\n"
                                        "    if (threadIdx.x % 32 == 0)\n"
                                        "        tile.part[threadIdx.x / 32] = sum;\n"
                                        "    __syncthreads();\n"
                                        "    if (threadIdx.x < 4)\n"
                                        "        sum = tile.part[threadIdx.x];\n"
                                        "    if (threadIdx.x < 4) {\n"
                                        "        sum += __shfl_xor_sync(0xfu, sum, 1, 4);\n"
                                        "        sum += __shfl_xor_sync(0xfu, sum, 2, 4);\n"
                                        "    }\n"
                                        "    if (threadIdx.x == 0)\n"
                                        "        p.y[blockIdx.x] = sum;\n"
                                        "}\n";

static const struct kernel sum_kernel = {sum_source, 8, 128, 16};

static void check_sums(enum att_host_mode mode, uint64_t seed) {
    struct device device = device_open(mode, seed);
    float x[1000], y[8];
    for (int i = 0; i < 1000; i++)
        x[i] = (float)i;
    struct params p = {device_buffer(&device, sizeof x, x), device_buffer(&device, sizeof y, NULL), 1000};
    enum att_status status = device_run(&device, &sum_kernel, &p, sizeof p);
    cr_assert_eq(status, ATT_OK, "mode %d: %s", (int)mode, text_string(&device.failure.text));
    memcpy(y, p.y, sizeof y);
    for (int block = 0; block < 8; block++) {
        float sum = 0;
        for (int i = block * 128; i < (block + 1) * 128 && i < 1000; i++)
            sum += x[i];
        cr_assert_eq(y[block], sum, "mode %d seed %d block %d: %g, not %g", (int)mode, (int)seed, block, y[block], sum);
    }
    struct att_counters counters = {.size = sizeof counters};
    backend_host.counters(device.backend, &counters, 1);
    bool counted = mode == ATT_HOST_CHECK;
    cr_assert_eq(counters.global_read, counted ? 4000 : 0);
    cr_assert_eq(counters.global_written, counted ? 32 : 0);
    cr_assert_eq(counters.shared_read, counted ? 8 * 16 : 0);
    cr_assert_eq(counters.shared_written, counted ? 8 * 16 : 0);
    backend_host.counters(device.backend, &counters, 0);
    cr_assert_eq(counters.global_read, 0, "reset");
    device_close(&device);
}

Test(host, blocks_reduce_and_bytes_are_counted_in_every_mode_schedule_and_compiler) {
    static const char *const compilers[] = {"g++", "clang++"};
    int found = 0;
    for (size_t c = 0; c < LENGTH(compilers); c++) {
        char command[64];
        snprintf(command, sizeof command, "command -v %s >/dev/null", compilers[c]);
        if (system(command))
            continue;
        found++;
        setenv("CXX", compilers[c], 1);
        for (size_t mode = 0; mode < LENGTH(modes); mode++)
            for (uint64_t seed = 0; seed < 3; seed++)
                check_sums(modes[mode], seed);
    }
    cr_assert_gt(found, 0);
}

Test(host, vectors_and_whole_structs_are_counted_by_their_bytes) {
    static const struct kernel kernel = {PARAMS
                                         "struct Row { float value[25]; };\n"
                                         "extern \"C\" __global__ void kernel(const Params p) {\n"
                                         "    ((float4 *)p.y)[threadIdx.x] = ((const float4 *)p.x)[threadIdx.x];\n"
                                         "    __syncthreads();\n"
                                         "    if (threadIdx.x == 0)\n"
                                         "        ((Row *)p.y)[1] = ((const Row *)p.x)[0];\n"
                                         "}\n",
                                         1, 16, 0};
    struct device device = device_open(ATT_HOST_CHECK, 0);
    float x[64];
    for (int i = 0; i < 64; i++)
        x[i] = (float)i;
    struct params p = {device_buffer(&device, sizeof x, x), device_buffer(&device, sizeof x, NULL), 64};
    cr_assert_eq(device_run(&device, &kernel, &p, sizeof p), ATT_OK, "%s", text_string(&device.failure.text));
    for (int i = 0; i < 64; i++)
        cr_assert_eq(((float *)p.y)[i], x[i >= 25 && i < 50 ? i - 25 : i]);
    struct att_counters counters = {.size = sizeof counters};
    backend_host.counters(device.backend, &counters, 0);
    cr_assert_eq(counters.global_read, 256 + 100, "%d", (int)counters.global_read);
    cr_assert_eq(counters.global_written, 256 + 100, "%d", (int)counters.global_written);
    device_close(&device);
}

Test(host, constants_and_local_arrays_are_neither_faults_nor_traffic) {
    static const struct kernel kernel = {PARAMS "static const float table[5] = {2, 3, 5, 7, 11};\n"
                                                "extern \"C\" __global__ void kernel(const Params p) {\n"
                                                "    volatile float own[64] = {0};\n"
                                                "    own[threadIdx.x] = table[p.n % 5 + threadIdx.x % 2];\n"
                                                "    p.y[threadIdx.x] = own[threadIdx.x] + own[63] + max(1u, 2);\n"
                                                "}\n",
                                         1, 32, 0};
    struct device device = device_open(ATT_HOST_CHECK, 0);
    struct params p = {NULL, device_buffer(&device, 32 * sizeof(float), NULL), 12};
    cr_assert_eq(device_run(&device, &kernel, &p, sizeof p), ATT_OK, "%s", text_string(&device.failure.text));
    for (int i = 0; i < 32; i++)
        cr_assert_eq(((float *)p.y)[i], i % 2 ? 9 : 7);
    struct att_counters counters = {.size = sizeof counters};
    backend_host.counters(device.backend, &counters, 0);
    cr_assert_eq(counters.global_read, 0, "%d", (int)counters.global_read);
    cr_assert_eq(counters.global_written, 32 * sizeof(float));
    device_close(&device);
}

Test(host, shared_memory_is_nan_at_the_start_of_every_block) {
    static const struct kernel kernel = {KERNEL "    float *shared = dynamic_shared<float>();\n"
                                                "    p.y[blockIdx.x * 32 + threadIdx.x] = shared[threadIdx.x];\n"
                                                "    shared[threadIdx.x] = 1.0f;\n"
                                                "}\n",
                                         6, 32, 128};
    struct device device = device_open(ATT_HOST_FAST, 0);
    float y[6 * 32] = {0};
    struct params p = {NULL, device_buffer(&device, sizeof y, y), 0};
    cr_assert_eq(device_run(&device, &kernel, &p, sizeof p), ATT_OK);
    for (size_t i = 0; i < LENGTH(y); i++)
        cr_assert(isnan(((float *)p.y)[i]), "element %zu", i);
    device_close(&device);
}

Test(host, atomics_of_all_blocks_add_up) {
    static const struct kernel kernel = {"struct Params { unsigned *sum; float *total; int *most; };\n"
                                         "extern \"C\" __global__ void kernel(const Params p) {\n"
                                         "    atomicAdd(p.sum, threadIdx.x);\n"
                                         "    atomicAdd(p.total, 0.5f);\n"
                                         "    atomicMax(p.most, (int)(blockIdx.x * 100 + threadIdx.x));\n"
                                         "}\n",
                                         200, 64, 0};
    struct {
        unsigned *sum;
        float *total;
        int *most;
    } p;
    for (size_t mode = 0; mode < LENGTH(modes); mode++) {
        struct device device = device_open(modes[mode], 0);
        p.sum = device_buffer(&device, 4, "\0\0\0");
        p.total = device_buffer(&device, 4, "\0\0\0");
        p.most = device_buffer(&device, 4, "\0\0\0");
        cr_assert_eq(device_run(&device, &kernel, &p, sizeof p), ATT_OK, "%s", text_string(&device.failure.text));
        cr_assert_eq(*p.sum, 200 * 64 * 63 / 2);
        cr_assert_eq(*p.total, 200 * 64 * 0.5f);
        cr_assert_eq(*p.most, 199 * 100 + 63);
        struct att_counters counters = {.size = sizeof counters};
        backend_host.counters(device.backend, &counters, 0);
        cr_assert_eq(counters.global_read, modes[mode] == ATT_HOST_CHECK ? 200 * 64 * 12 : 0);
        device_close(&device);
    }
}

/* --- words --------------------------------------------------------------------------------------------------------- */

Test(host, shuffles_and_votes_move_what_they_should) {
    /* 40 threads: the second warp has 8 lanes. Each thread writes 10 words. */
    static const struct kernel kernel = {
        "struct Params { int *y; };\n"
        "extern \"C\" __global__ void kernel(const Params p) {\n"
        "    int t = threadIdx.x, *y = p.y + 10 * t;\n"
        "    unsigned all = t < 32 ? 0xffffffffu : 0xffu;\n"
        "    y[0] = __shfl_sync(all, t, 3);\n"
        "    y[1] = __shfl_sync(all, t, 11, 8);\n"
        "    y[2] = __shfl_up_sync(all, t, 3u, 8);\n"
        "    y[3] = __shfl_down_sync(all, t, 2u, 4);\n"
        "    y[4] = (int)__shfl_xor_sync(all, (long long)t << 32, 5) + (int)(__shfl_xor_sync(all, (long long)t << 32, "
        "5) >> 32);\n"
        "    y[5] = (int)__ballot_sync(all, t % 3 == 0);\n"
        "    y[6] = __any_sync(all, t == 35) + 2 * __all_sync(all, t < 32);\n"
        "    unsigned mine = t % 2 ? 0xaaaaaaaau & all : 0x55555555u & all;\n"
        "    y[7] = t % 2 ? (int)__ballot_sync(mine, 1) : (int)__shfl_xor_sync(mine, (float)t, 2);\n"
        "    y[8] = __reduce_min_sync(mine, (t - 20) * (t - 20) - 7);\n"
        "    y[9] = __reduce_max_sync(mine, t);\n"
        "}\n",
        1, 40, 0};
    struct {
        int *y;
    } p;
    for (size_t mode = 0; mode < LENGTH(modes); mode++)
        for (uint64_t seed = 0; seed < 4; seed++) {
            struct device device = device_open(modes[mode], seed);
            p.y = device_buffer(&device, 40 * 10 * sizeof(int), NULL);
            cr_assert_eq(device_run(&device, &kernel, &p, sizeof p), ATT_OK, "%s", text_string(&device.failure.text));
            for (int t = 0; t < 40; t++) {
                int warp = t / 32 * 32, lane = t % 32;
                unsigned ballot = 0;
                for (int l = 0; l < 32 && warp + l < 40; l++)
                    ballot |= (unsigned)((warp + l) % 3 == 0) << l;
                const int expected[10] = {
                    warp + 3,
                    t / 8 * 8 + 3,
                    lane % 8 >= 3 ? t - 3 : t,
                    lane % 4 < 2 ? t + 2 : t,
                    t ^ 5,
                    (int)ballot,
                    t < 32 ? 2 : 1,
                    t % 2 ? (t < 32 ? (int)0xaaaaaaaa : 0xaa) : (t ^ 2),
                    t < 32 ? (t % 2 ? 1 : 0) - 7 : (t % 2 ? 13 * 13 : 12 * 12) - 7,
                    t < 32 ? 30 + t % 2 : 38 + t % 2,
                };
                for (int i = 0; i < 10; i++)
                    cr_assert_eq(p.y[10 * t + i], expected[i], "thread %d, word %d: %d, not %d", t, i, p.y[10 * t + i],
                                 expected[i]);
            }
            device_close(&device);
        }
}

Test(host, number_words_do_what_cuda_says) {
    static const struct kernel kernel = {
        KERNEL
        "    float nan = __int_as_float(0x7fffffff), *y = p.y;\n"
        "    y[0] = fmaxf(nan, 2.0f);  y[1] = fmaxf(2.0f, nan);  y[2] = fminf(nan, -2.0f);\n"
        "    y[3] = fmaf(1 + 0x1p-23f, 1 - 0x1p-23f, -1.0f);\n"
        "    y[4] = isnan(nan) + 2 * isinf(-INFINITY) + 4 * isnan(1.0f) + 8 * isinf(1.0f);\n"
        "    y[5] = exp2_approx(-126.5f);  y[6] = exp2_approx(3.0f);  y[7] = exp2_approx(-INFINITY);\n"
        "    y[8] = min(3, 5) + 10 * max(3u, 5u) + 100 * (float)min(7LL, 9LL);\n"
        "    y[9] = (float)__float_as_int(1.0f) / 0x1p23f;\n"
        "    float4 v = make_float4(1, 2, 3, 4);  int2 i = make_int2(5, 6);\n"
        "    y[10] = v.x + 10 * v.y + 100 * v.z + 1000 * v.w + 10000 * i.x + 100000 * i.y;\n"
        "    y[11] = expf(0.0f) + 10 * exp2f(1.0f) + 100 * logf(1.0f) + 1000 * log2f(8.0f) + 10000 * sqrtf(16.0f);\n"
        "    y[12] = fabsf(-3.0f) + 10 * gridDim.x + 100 * blockDim.x + 1000 * (float)sizeof(uint4);\n"
        "}\n",
        1, 1, 0};
    static const float expected[] = {2, 2, -2, -0x1p-46f, 3, 0, 8, 0, 753, 127, 654321, 43021, 16113};
    for (size_t mode = 0; mode < LENGTH(modes); mode++) {
        struct device device = device_open(modes[mode], 0);
        struct params p = {NULL, device_buffer(&device, sizeof expected, NULL), 0};
        cr_assert_eq(device_run(&device, &kernel, &p, sizeof p), ATT_OK, "%s", text_string(&device.failure.text));
        for (size_t i = 0; i < LENGTH(expected); i++)
            cr_assert_eq(((float *)p.y)[i], expected[i], "%zu: %a, not %a", i, ((float *)p.y)[i], expected[i]);
        device_close(&device);
    }
}

Test(host, asynchronous_copies_land_at_the_wait) {
    static const struct kernel kernel = {KERNEL "    float *tile = dynamic_shared<float>();\n"
                                                "    for (int i = 0; i < 16; i++)\n"
                                                "        tile[i] = 7;\n"
                                                "    copy_async<16>(tile, p.x, 16);\n"
                                                "    copy_async<16>(tile + 4, p.x + 1000, 0);\n" /* not touched */
                                                "    copy_async<4>(tile + 8, p.x + 5, 4);\n"
                                                "    for (int i = 0; i < 10; i++)\n"
                                                "        p.y[i] = tile[i];\n"
                                                "    copy_async_wait();\n"
                                                "    for (int i = 0; i < 10; i++)\n"
                                                "        p.y[10 + i] = tile[i];\n"
                                                "}\n",
                                         1, 1, 64};
    static const float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, after[10] = {1, 2, 3, 4, 0, 0, 0, 0, 6, 7};
    for (size_t mode = 0; mode < LENGTH(modes); mode++) {
        struct device device = device_open(modes[mode], 0);
        struct params p = {device_buffer(&device, sizeof x, x), device_buffer(&device, 80, NULL), 8};
        cr_assert_eq(device_run(&device, &kernel, &p, sizeof p), ATT_OK, "%s", text_string(&device.failure.text));
        const float *y = p.y;
        for (int i = 0; i < 10; i++) {
            cr_assert(i == 9 ? y[i] == 7 : isnan(y[i]), "before the wait, %d: %g", i, y[i]);
            cr_assert_eq(y[10 + i], after[i], "after the wait, %d: %g", i, y[10 + i]);
        }
        device_close(&device);
    }
}

/* The value of a finite 16-bit float with `exponent_bits`. */
static double value_of(unsigned bits, int exponent_bits) {
    int fraction_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = (int)(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
    double fraction = bits & ((1u << fraction_bits) - 1);
    double magnitude = exponent ? ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits)
                                : ldexp(fraction, 1 - bias - fraction_bits);
    return bits & 0x8000 ? -magnitude : magnitude;
}

static float next_up(float x, int steps) {
    int bits;
    memcpy(&bits, &x, sizeof bits);
    bits += steps;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Rounding only changes at the midpoint of two neighbours, so a conversion that is right at every number, every
   midpoint, and one step beside each midpoint is right everywhere. */
static void check_conversions(const char *name, int exponent_bits) {
    enum { COUNT = 65536, PER = 4 };
    char source[1024];
    snprintf(source, sizeof source,
             "struct Params { const float *x; unsigned short *back; float *y; int per; };\n"
             "extern \"C\" __global__ void kernel(const Params p) {\n"
             "    int bits = blockIdx.x * blockDim.x + threadIdx.x;\n"
             "    p.y[bits] = %s_to_float((unsigned short)bits);\n"
             "    for (int i = 0; i < p.per; i++)\n"
             "        p.back[bits * p.per + i] = float_to_%s(p.x[bits * p.per + i]);\n"
             "}\n",
             name, name);
    unsigned infinity = ((1u << exponent_bits) - 1) << (15 - exponent_bits);
    float *x = malloc(COUNT * PER * sizeof *x);
    unsigned short *expected = malloc(COUNT * PER * sizeof *expected);
    for (unsigned bits = 0; bits < COUNT; bits++) {
        unsigned magnitude = bits & 0x7fff;
        float *at = x + bits * PER;
        unsigned short *want = expected + bits * PER;
        if (magnitude >= infinity) { /* infinity, or some NaN: any will do */
            for (int i = 0; i < PER; i++) {
                at[i] = magnitude == infinity ? (bits & 0x8000 ? -INFINITY : INFINITY) : NAN;
                want[i] = magnitude == infinity ? (unsigned short)bits : 0xffff;
            }
            continue;
        }
        double low = value_of(bits, exponent_bits), high = value_of(bits + 1, exponent_bits);
        at[0] = (float)low;
        at[1] = (float)((low + high) / 2);
        at[2] = next_up(at[1], -1);
        at[3] = next_up(at[1], 1);
        want[0] = want[2] = (unsigned short)bits;
        want[3] = (unsigned short)(bits + 1);
        want[1] = (unsigned short)(bits + (bits & 1));
        if (fabs((low + high) / 2) > 3.4028235e38) { /* there is no such float */
            at[1] = at[3] = at[0];
            at[2] = (float)low;
            want[1] = want[3] = (unsigned short)bits;
        }
    }
    struct device device = device_open(ATT_HOST_FAST, 0);
    struct {
        const float *x;
        unsigned short *back;
        float *y;
        int per;
    } p = {device_buffer(&device, COUNT * PER * sizeof *x, x),
           device_buffer(&device, COUNT * PER * sizeof *expected, NULL),
           device_buffer(&device, COUNT * sizeof *x, NULL), PER};
    struct kernel kernel = {source, COUNT / 256, 256, 0};
    cr_assert_eq(device_run(&device, &kernel, &p, sizeof p), ATT_OK, "%s", text_string(&device.failure.text));
    for (unsigned bits = 0; bits < COUNT; bits++) {
        unsigned magnitude = bits & 0x7fff;
        if (magnitude > infinity)
            cr_assert(isnan(p.y[bits]), "%s %04x", name, bits);
        else {
            float value =
                magnitude == infinity ? (bits & 0x8000 ? -INFINITY : INFINITY) : (float)value_of(bits, exponent_bits);
            cr_assert(memcmp(&p.y[bits], &value, sizeof value) == 0, "%s %04x: %a, not %a", name, bits, p.y[bits],
                      value);
        }
        for (unsigned i = bits * PER; i < (bits + 1) * PER; i++)
            if (expected[i] == 0xffff)
                cr_assert_gt(p.back[i] & 0x7fff, infinity, "%s of NaN: %04x", name, p.back[i]);
            else
                cr_assert_eq(p.back[i], expected[i], "%s of %a: %04x, not %04x", name, x[i], p.back[i], expected[i]);
    }
    device_close(&device);
    free(x);
    free(expected);
}

Test(host, halves_and_bfloat16_round_to_nearest_even_at_every_number) {
    check_conversions("half", 5);
    check_conversions("bfloat16", 8);
}

/* --- faults -------------------------------------------------------------------------------------------------------- */

struct fault_case {
    const char *statement; /* line 3 of the kernel; x and y have 16 elements, shared memory 64 bytes, 64 threads */
    const char *words[4];  /* in the message */
};

static void check_faults(const struct fault_case *cases, size_t count, const char *line) {
    for (size_t i = 0; i < count; i++) {
        uint64_t seed = i % 2;
        struct device device = device_open(ATT_HOST_CHECK, seed);
        struct text source = {0};
        text_print(&source, KERNEL "    %s\n}\n", cases[i].statement);
        float zero[16] = {0};
        struct params p = {device_buffer(&device, 64, zero), device_buffer(&device, 64, NULL), 16};
        struct kernel kernel = {source.bytes, 2, 64, 64};
        enum att_status status = device_run(&device, &kernel, &p, sizeof p);
        cr_assert_eq(status, ATT_LAUNCH_FAILED, "not noticed: %s", cases[i].statement);
        cr_expect(has(&device, line), "%s: %s", cases[i].statement, text_string(&device.failure.text));
        for (int w = 0; w < 4 && cases[i].words[w]; w++)
            cr_expect(has(&device, cases[i].words[w]), "%s: expected \"%s\" in: %s", cases[i].statement,
                      cases[i].words[w], text_string(&device.failure.text));
        /* The device still works. */
        cr_assert_eq(device_run(&device, &(struct kernel){KERNEL "}\n", 4, 64, 0}, &p, sizeof p), ATT_OK);
        text_free(&source);
        device_close(&device);
    }
}

Test(host, every_stray_access_is_named_with_its_line) {
    static const struct fault_case cases[] = {
        {"if (threadIdx.x == 5) p.y[16] = 1.0f;", {"thread 5:", "writes 4 bytes", "byte 64 of a buffer of 64 bytes"}},
        {"if (threadIdx.x == 6) p.y[0] = p.x[17];", {"thread 6:", "reads 4 bytes", "byte 68 of a buffer of 64 bytes"}},
        {"if (threadIdx.x == 7) p.y[-1] = 1.0f;", {"thread 7:", "writes 4 bytes", "4 bytes before a buffer of 64"}},
        {"((float4 *)(p.y + 9))[0] = make_float4(1, 2, 3, 4);", {"misaligned"}},
        {"*(long long *)(p.y + 1) = 0;", {"misaligned", "writes 8 bytes"}},
        {"if (p.n == 16) *(volatile int *)0 = 1;", {"writes 4 bytes", "address 0x0, which is in no buffer"}},
        {"dynamic_shared<float>()[16] = p.x[0];",
         {"writes 4 bytes", "byte 64 of the block's 64 bytes of shared memory"}},
        {"p.y[0] = dynamic_shared<float>()[-1];", {"reads 4 bytes"}},
        {"float mine = 1; if (threadIdx.x == 0) *(volatile float **)dynamic_shared<char>() = &mine; __syncthreads(); "
         "if (threadIdx.x == 9) **(volatile float **)dynamic_shared<char>() = 2; __syncthreads(); p.y[0] = mine;",
         {"thread 9:", "writes 4 bytes", "local memory of thread 0"}},
        {"if (threadIdx.x == 63 && blockIdx.x == 1) atomicAdd(p.y + 16, 1.0f);",
         {"block 1, thread 63", "byte 64 of a buffer of 64 bytes"}},
        {"copy_async<16>(dynamic_shared<float>() + 1, p.x, 16);", {"misaligned: writes 16 bytes"}},
        {"copy_async<4>(dynamic_shared<float>() + threadIdx.x % 16, p.x + 16, 4); copy_async_wait();",
         {"reads 4 bytes", "byte 64 of a buffer of 64 bytes"}},
        {"struct Big { char byte[200]; }; *(Big *)p.y = *(Big *)p.x;", {"200 bytes", "byte 0 of a buffer of 64 bytes"}},
    };
    check_faults(cases, LENGTH(cases), "kernel kernel, line 3, ");
}

Test(host, threads_that_wait_for_each_other_in_vain_are_named) {
    static const struct fault_case cases[] = {
        {"if (threadIdx.x != 31) __syncthreads();",
         {"deadlock", "threads 0 to 30 wait in __syncthreads(), line 3: 63 of 64", "thread 31 has ended",
          "threads 32 to 63 wait"}},
        {"if (threadIdx.x < 40) __syncthreads(); else\n__syncthreads();", {"divergent __syncthreads()", "line 4"}},
        {"if (threadIdx.x != 3) __syncthreads(); else __syncwarp();",
         {"deadlock", "thread 3 waits in __syncwarp(), line 3: mask 0xffffffff, missing lanes 0xfffffff7",
          "threads 4 to 63 wait in __syncthreads(), line 3"}},
        {"if (threadIdx.x == 9) __syncwarp(0x100);", {"thread 9:", "mask 0x00000100", "leaves out the calling lane 9"}},
        {"if (threadIdx.x % 32 == 0) __syncwarp(); else __ballot_sync(0xffffffffu, 1);",
         {"divergent warp", "__syncwarp()", "a warp vote"}},
        {"copy_async<4>(dynamic_shared<float>(), p.x, 4);", {"ended with 1 asynchronous copies"}},
        {"if (threadIdx.x < 8) p.y[0] = __shfl_sync(0xffu, 1.0f, 8);", {"from lane 8", "not in the mask", "undefined"}},
        {"if (threadIdx.x != 4) p.y[0] = __shfl_xor_sync(0xffffffffu, 1.0f, 1); else p.y[0] = "
         "__shfl_xor_sync(0x10u, 1.0f, 0) + __shfl_sync(0x30u, 1.0f, 5);",
         {"deadlock", "a warp shuffle, line 3: mask 0x00000030, missing lanes 0x00000020"}},
    };
    check_faults(cases, LENGTH(cases), "kernel kernel, ");
}

Test(host, a_dependent_launch_waits_before_it_touches_memory) {
    static const struct {
        const char *statement, *words; /* in the refusal; null = there is none */
    } cases[] = {
        {"float *mine = dynamic_shared<float>() + threadIdx.x % 16; *mine = p.n; grid_dependency_wait(); "
         "launch_dependents(); if (threadIdx.x == 0) p.y[blockIdx.x] = *mine;",
         NULL},
        {"grid_dependency_wait(); if (threadIdx.x > 7) return;", NULL},
        {"if (threadIdx.x == 0) p.y[0] = 1; grid_dependency_wait();",
         "thread 0: accesses global memory before grid_dependency_wait()"},
        {"float x = p.x[threadIdx.x % 16]; grid_dependency_wait(); dynamic_shared<float>()[threadIdx.x % 16] = x;",
         "accesses global memory before grid_dependency_wait()"},
        {"copy_async<4>(dynamic_shared<float>() + threadIdx.x % 16, p.x, 4); copy_async_wait(); "
         "grid_dependency_wait();",
         "accesses global memory before grid_dependency_wait()"},
        {"grid_dependency_begun(); if (threadIdx.x == 0) p.y[blockIdx.x] = 1; grid_dependency_wait();", NULL},
        {"grid_dependency_begun();", "ended without grid_dependency_wait()"},
        {"launch_dependents();", "ended without grid_dependency_wait()"},
        {"if (threadIdx.x != 5) grid_dependency_wait();", "thread 5: ended without grid_dependency_wait()"},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        struct device device = device_open(ATT_HOST_CHECK, 0);
        struct text source = {0};
        text_print(&source, KERNEL "    %s\n}\n", cases[i].statement);
        float zero[16] = {0};
        struct params p = {device_buffer(&device, 64, zero), device_buffer(&device, 64, NULL), 16};
        struct kernel kernel = {source.bytes, 2, 64, 64};
        enum att_status status = device_run_dependent(&device, &kernel, &p, sizeof p);
        cr_expect_eq(status, cases[i].words ? ATT_LAUNCH_FAILED : ATT_OK, "%s: %s", cases[i].statement,
                     text_string(&device.failure.text));
        cr_expect(!cases[i].words || has(&device, cases[i].words), "%s: expected \"%s\" in: %s", cases[i].statement,
                  cases[i].words, text_string(&device.failure.text));
        /* Any kernel may also be launched as a plain one. */
        cr_expect_eq(device_run(&device, &kernel, &p, sizeof p), ATT_OK, "%s: %s", cases[i].statement,
                     text_string(&device.failure.text));
        text_free(&source);
        device_close(&device);
    }
}

Test(host, fast_mode_finds_writes_outside_afterwards) {
    static const int offsets[] = {16, -1, 40};
    for (size_t i = 0; i < LENGTH(offsets); i++) {
        struct device device = device_open(ATT_HOST_FAST, 0);
        char source[256], words[64];
        snprintf(source, sizeof source, KERNEL "    p.y[%d] = 1.0f;\n}\n", offsets[i]);
        struct params p = {NULL, device_buffer(&device, 64, NULL), 16};
        cr_assert_eq(device_run(&device, &(struct kernel){source, 1, 1, 0}, &p, sizeof p), ATT_LAUNCH_FAILED);
        snprintf(words, sizeof words, "byte %d of a buffer of 64 bytes was written", 4 * offsets[i]);
        cr_expect(has(&device, words), "%s", text_string(&device.failure.text));
        cr_assert_eq(device_run(&device, &(struct kernel){KERNEL "}\n", 1, 1, 0}, &p, sizeof p), ATT_OK,
                     "once is enough");
        device_close(&device);
    }
}

/* --- schedules ----------------------------------------------------------------------------------------------------- */

static void record_order(uint64_t seed, int order[256]) {
    static const struct kernel kernel = {"struct Params { int *order, *count; };\n"
                                         "extern \"C\" __global__ void kernel(const Params p) {\n"
                                         "    __syncthreads();\n"
                                         "    p.order[atomicAdd(p.count, 1)] = blockIdx.x * blockDim.x + threadIdx.x;\n"
                                         "}\n",
                                         4, 64, 0};
    struct device device = device_open(ATT_HOST_FAST, seed);
    struct {
        int *order, *count;
    } p = {device_buffer(&device, 256 * sizeof(int), NULL), device_buffer(&device, 4, "\0\0\0")};
    cr_assert_eq(device_run(&device, &kernel, &p, sizeof p), ATT_OK);
    memcpy(order, p.order, 256 * sizeof(int));
    device_close(&device);
}

Test(host, a_seed_is_a_schedule_that_can_be_replayed) {
    int first[256], again[256], other[256];
    record_order(11, first);
    record_order(11, again);
    record_order(12, other);
    cr_assert(memcmp(first, again, sizeof first) == 0);
    cr_assert(memcmp(first, other, sizeof first) != 0);
    bool seen[256] = {0};
    for (int i = 0; i < 256; i++)
        seen[first[i]] = true;
    for (int i = 0; i < 256; i++)
        cr_assert(seen[i], "thread %d", i);
}

static void *run_sums(void *argument) {
    (void)argument;
    for (int i = 0; i < 3; i++)
        check_sums(ATT_HOST_CHECK, 0);
    return NULL;
}

Test(host, several_threads_may_launch_at_once) {
    pthread_t thread[4];
    for (size_t i = 0; i < LENGTH(thread); i++)
        cr_assert_eq(pthread_create(&thread[i], NULL, run_sums, NULL), 0);
    for (size_t i = 0; i < LENGTH(thread); i++)
        pthread_join(thread[i], NULL);
}

/* --- compiling, loading, memory ------------------------------------------------------------------------------------ */

Test(host, a_compile_error_has_the_kernels_name_and_line) {
    struct device device = device_open(ATT_HOST_CHECK, 0);
    const char *const entries[] = {"kernel"};
    struct compile_job job = {KERNEL "    nonsense();\n}\n", "softmax.cu", NULL, entries, 1};
    struct binary binary;
    cr_assert_eq(backend_host.compile(device.backend, &job, &binary, &device.failure), ATT_COMPILE_FAILED);
    cr_assert(has(&device, "softmax.cu:3:") && has(&device, "nonsense"), "%s", text_string(&device.failure.text));
    device_close(&device);
}

Test(host, without_a_compiler_it_opens_and_says_what_to_install) {
    setenv("CXX", "/nonexistent/g++", 1);
    setenv("PATH", "/nonexistent", 1);
    struct device device = device_open(ATT_HOST_CHECK, 0);
    struct text text = {0};
    struct binary binary;
    struct compile_job job = {.source = "", .name = "empty.cu"};
    cr_assert_eq(backend_host.identity(device.backend, NULL, &text, &device.failure), ATT_NO_COMPILER);
    cr_assert(has(&device, "apt install g++") && has(&device, "CXX names the program '/nonexistent/g++'"));
    cr_assert_eq(backend_host.compile(device.backend, &job, &binary, &device.failure), ATT_NO_COMPILER);
    struct backend_info info;
    backend_host.describe(device.backend, &info);
    cr_assert(strstr(info.compiler, "none"));
    device_close(&device);
}

Test(host, identity_tells_modes_and_compilers_apart_and_holds_no_path) {
    struct text text[2] = {{0}};
    for (size_t mode = 0; mode < LENGTH(modes); mode++) {
        struct device device = device_open(modes[mode], 0);
        cr_assert_eq(backend_host.identity(device.backend, NULL, &text[mode], &device.failure), ATT_OK);
        cr_assert_null(strstr(text_string(&text[mode]), "/tmp"));
        cr_assert_null(strstr(text_string(&text[mode]), "/usr"));
        cr_assert(strstr(text_string(&text[mode]), "compiler: ") && strstr(text_string(&text[mode]), "words: "));
        device_close(&device);
    }
    cr_assert_str_neq(text[0].bytes, text[1].bytes);
    text_free(&text[0]);
    text_free(&text[1]);
}

Test(host, what_is_no_kernel_is_refused) {
    struct device device = device_open(ATT_HOST_CHECK, 0);
    struct plan plan = {.launches = 1, .launch = {{.entry = "kernel", .block = 32}}};
    struct module *module;
    static const char *const garbage[] = {"", "\177ELF", "no shared object at all"};
    for (size_t i = 0; i < LENGTH(garbage); i++) {
        cr_assert_eq(backend_host.load(device.backend, garbage[i], strlen(garbage[i]), &plan, &module, &device.failure),
                     ATT_LAUNCH_FAILED);
        cr_assert_null(module);
    }
    struct params p = {0};
    cr_assert_eq(device_run(&device, &(struct kernel){KERNEL "}\n", 1, 32, 0}, &p, sizeof p - 1), ATT_LAUNCH_FAILED);
    cr_assert(has(&device, "expected 24 bytes of parameters, found 23"), "%s", text_string(&device.failure.text));
    cr_assert_eq(device_run(&device, &(struct kernel){KERNEL "}\n", -1, 32, 0}, &p, sizeof p), ATT_LAUNCH_FAILED);
    cr_assert_eq(device_run(&device, &(struct kernel){KERNEL "}\n", 0, 32, 0}, &p, sizeof p), ATT_OK, "no blocks");
    struct backend_options race = {.host_mode = ATT_HOST_RACE};
    struct backend *backend;
    cr_assert_eq(backend_host.open(&race, &backend, &device.failure), ATT_UNSUPPORTED);
    cr_assert(has(&device, "ThreadSanitizer"));
    device_close(&device);
}

Test(host, buffers_are_aligned_poisoned_and_known) {
    struct device device = device_open(ATT_HOST_CHECK, 0);
    struct failure *failure = &device.failure;
    void *buffer[50];
    for (size_t i = 0; i < LENGTH(buffer); i++) {
        buffer[i] = device_buffer(&device, i * 37, NULL);
        cr_assert_eq((uintptr_t)buffer[i] % 256, 0);
        for (size_t byte = 0; byte < i * 37; byte++)
            cr_assert_eq(((unsigned char *)buffer[i])[byte], 0xff);
    }
    cr_assert_eq(backend_host.copy_in(device.backend, buffer[2], "x", 75, failure), ATT_INVALID_ARGUMENT);
    cr_assert_eq(backend_host.copy_out(device.backend, failure, (char *)buffer[2] + 70, 5, failure),
                 ATT_INVALID_ARGUMENT);
    cr_assert_eq(backend_host.copy_in(device.backend, NULL, NULL, 0, failure), ATT_OK, "nothing to copy");
    for (size_t i = 0; i < LENGTH(buffer); i++) /* not in order */
        cr_assert_eq(backend_host.free(device.backend, buffer[i * 7 % LENGTH(buffer)], failure), ATT_OK);
    cr_assert_eq(backend_host.free(device.backend, buffer[3], failure), ATT_INVALID_ARGUMENT);
    cr_assert_eq(backend_host.free(device.backend, NULL, failure), ATT_OK);
    void *huge;
    cr_assert_eq(backend_host.alloc(device.backend, SIZE_MAX - 10, &huge, failure), ATT_OUT_OF_MEMORY);
    cr_assert_null(huge);
    device_close(&device);
}

Test(host, the_timer_measures_seconds) {
    struct device device = device_open(ATT_HOST_FAST, 0);
    double seconds = -1;
    backend_host.timer_start(device.backend, NULL, &device.failure);
    usleep(20000);
    backend_host.timer_stop(device.backend, NULL, &seconds, &device.failure);
    cr_assert(seconds >= 0.02 && seconds < 10, "%g", seconds);
    device_close(&device);
}
