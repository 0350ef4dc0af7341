/* What sm_80 adds to the host device: groups of asynchronous copies, ldmatrix, mma. */
#include "helper_kernel.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct params {
    const float *x;
    float *y;
    int n;
};
#define KERNEL                                                                                                         \
    "struct params { const float *x; float *y; int n; };\n"                                                            \
    "extern \"C\" __global__ void __launch_bounds__(32) kernel(const __grid_constant__ params p) {\n"

static void run(struct device *device, const char *source, int threads, struct params p) {
    const struct kernel kernel = {source, 1, threads, 4096};
    cr_assert_eq(device_run(device, &kernel, &p, sizeof p), ATT_OK, "%s", text_string(&device->failure.text));
}

/* --- movmatrix ------------------------------------------------------------------------------------------------------- */

/* Element (i, j) is 8 i + j. */
Test(warp_unit, movmatrix_transposes) {
    static const char source[] = KERNEL "    unsigned first = threadIdx.x * 2;\n"
                                        "    unsigned pair = transpose_matrix(first | first + 1 << 16);\n"
                                        "    p.y[2 * threadIdx.x] = pair & 0xffff;\n"
                                        "    p.y[2 * threadIdx.x + 1] = pair >> 16;\n"
                                        "}\n";
    struct device device = device_open(ATT_HOST_CHECK, 0);
    struct params p = {NULL, device_buffer(&device, 64 * sizeof(float), NULL), 0};
    run(&device, source, 32, p);
    for (int i = 0; i < 64; i++)
        cr_expect_eq(p.y[i], i % 8 * 8 + i / 8, "element %d: %g", i, (double)p.y[i]);
    device_close(&device);
}

/* --- copies --------------------------------------------------------------------------------------------------------- */

/* Issues three groups and waits for one. The seed decides which of the later groups have landed by then. */
Test(ampere, groups_of_copies_land_by_their_wait) {
    static const char source[] = KERNEL "    float *tile = dynamic_shared<float>();\n"
                                        "    copy_async<16>(tile, p.x, 6);\n" /* one element and a half */
                                        "    copy_async_commit();\n"
                                        "    copy_async<8>(tile + 4, p.x + 2, 8);\n"
                                        "    copy_async_commit();\n"
                                        "    copy_async<4>(tile + 6, p.x + 5, 4);\n"
                                        "    copy_async_commit();\n"
                                        "    copy_async_wait_groups<2>();\n"
                                        "    for (int i = 0; i < 7; i++)\n"
                                        "        p.y[i] = tile[i];\n"
                                        "    copy_async_wait_groups<0>();\n"
                                        "    for (int i = 0; i < 7; i++)\n"
                                        "        p.y[7 + i] = tile[i];\n"
                                        "}\n";
    const float x[8] = {1, 1.5f, 3, 4, 5, 6, 7, 8};
    int landed[3] = {0}; /* elements of the later groups, by seed % 3 */
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct device device = device_open(ATT_HOST_CHECK, seed);
        struct params p = {device_buffer(&device, sizeof x, x), device_buffer(&device, 14 * 4, NULL), 0};
        run(&device, source, 1, p);
        const float after[7] = {1, 0, 0, 0, 3, 4, 6};
        uint32_t half;
        memcpy(&half, &p.y[1], 4);
        cr_assert(p.y[0] == 1 && (half & 0xffff) == 0 && half >> 16 == 0, "seed %d: %x", (int)seed, half);
        cr_assert(p.y[2] == 0 && p.y[3] == 0);
        for (int i = 4; i < 7; i++) {
            cr_assert(isnan(p.y[i]) || p.y[i] == after[i], "seed %d, %d: %g", (int)seed, i, p.y[i]);
            landed[seed % 3] += !isnan(p.y[i]);
        }
        cr_assert_eq(memcmp(p.y + 11, after + 4, 3 * sizeof *after), 0, "seed %d", (int)seed);
        device_close(&device);
    }
    cr_expect_eq(landed[0], 0, "late");
    cr_expect_eq(landed[1], 60, "early");
    cr_expect(landed[2] > 0 && landed[2] < 60, "at random: %d", landed[2]);
}

/* --- matrices ------------------------------------------------------------------------------------------------------- */

/* Element (row, column) of matrix j is 100 j + 10 row + column. Rows are `pitch` elements apart. */
#define LOAD(function, at, pitch)                                                                                      \
    KERNEL "    unsigned short *tile = dynamic_shared<unsigned short>();\n"                                            \
           "    for (int i = threadIdx.x; i < 256; i += 32)\n"                                                         \
           "        tile[i / 8 * " #pitch " + i % 8] = i / 64 * 100 + i / 8 % 8 * 10 + i % 8;\n"                       \
           "    __syncwarp();\n"                                                                                       \
           "    unsigned pair[4];\n"                                                                                   \
           "    " #function "(pair, " #at "(tile + threadIdx.x * " #pitch "));\n"                                      \
           "    for (int j = 0; j < 4; j++) {\n"                                                                       \
           "        p.y[threadIdx.x * 8 + 2 * j] = pair[j] & 0xffff;\n"                                                \
           "        p.y[threadIdx.x * 8 + 2 * j + 1] = pair[j] >> 16;\n"                                               \
           "    }\n"                                                                                                   \
           "}\n"

static void check_load(const char *source, bool transposed, unsigned conflicts) {
    struct device device = device_open(ATT_HOST_CHECK, 0);
    struct params p = {NULL, device_buffer(&device, 32 * 8 * 4, NULL), 0};
    struct att_counters counters = {.size = sizeof counters};
    run(&device, source, 32, p);
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 8; i++) {
            int major = lane / 4, minor = lane % 4 * 2 + i % 2;
            float expected = (float)(i / 2 * 100 + (transposed ? minor * 10 + major : major * 10 + minor));
            cr_assert_eq(p.y[lane * 8 + i], expected, "lane %d, %d: %g, not %g", lane, i, p.y[lane * 8 + i], expected);
        }
    backend_host.counters(device.backend, &counters, 1);
    cr_expect_eq(counters.shared_conflicts, conflicts, "%d, not %u", (int)counters.shared_conflicts, conflicts);
    device_close(&device);
}

Test(ampere, matrices_are_loaded_as_rows_or_as_columns) {
    check_load(LOAD(load_matrices, , 8), false, 0);
    check_load(LOAD(load_matrices_transposed, address_in_shared, 8), true, 0);
}

Test(ampere, rows_in_the_same_banks_are_counted) {
    check_load(LOAD(load_matrices, , 64), false, 4 * 7);
    check_load(LOAD(load_matrices, , 16), false, 4 * 1);
    check_load(LOAD(load_matrices_transposed, address_in_shared, 24), true, 0);
}

Test(ampere, what_ldmatrix_cannot_read_is_refused) {
    static const char *const cases[][2] = {
        {"unsigned pair[4]; load_matrices(pair, dynamic_shared<char>() + 8 * threadIdx.x);",
         "ldmatrix: lane 1 names byte 8 of 4096 bytes of shared memory"},
        {"unsigned pair[4]; load_matrices(pair, dynamic_shared<char>() + 144 * threadIdx.x);",
         "ldmatrix: lane 29 names byte 4176"},
        {"unsigned pair[4]; if (threadIdx.x) load_matrices(pair, dynamic_shared<char>());",
         "by a warp of which lanes 0x00000001 have ended"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char source[1024];
        snprintf(source, sizeof source, KERNEL "%s }\n", cases[i][0]);
        struct device device = device_open(ATT_HOST_CHECK, 0);
        const struct kernel kernel = {source, 1, 32, 4096};
        struct params p = {0};
        cr_expect_eq(device_run(&device, &kernel, &p, sizeof p), ATT_LAUNCH_FAILED);
        cr_expect(strstr(text_string(&device.failure.text), cases[i][1]), "%s", text_string(&device.failure.text));
        device_close(&device);
    }
}

/* --- products ------------------------------------------------------------------------------------------------------- */

/* a (16, 16) and b (16, 8) hold small integers, so that sums are exact. y (16, 8) starts at 1000. */
#define MULTIPLY(bfloat16)                                                                                             \
    KERNEL "    const int g = threadIdx.x / 4, t = threadIdx.x % 4 * 2;\n"                                             \
           "    const float *b = p.x + 256;\n"                                                                         \
           "    unsigned of_a[4], of_b[2];\n"                                                                          \
           "    for (int r = 0; r < 4; r++) {\n"                                                                       \
           "        const float *from = p.x + (g + r % 2 * 8) * 16 + t + r / 2 * 8;\n"                                 \
           "        of_a[r] = pack<" #bfloat16 ">(from[0], from[1]);\n"                                                \
           "    }\n"                                                                                                   \
           "    for (int r = 0; r < 2; r++)\n"                                                                         \
           "        of_b[r] = pack<" #bfloat16 ">(b[(t + r * 8) * 8 + g], b[(t + r * 8 + 1) * 8 + g]);\n"              \
           "    float s[4] = {1000, 1000, 1000, 1000};\n"                                                              \
           "    mma<" #bfloat16 ">(s[0], s[1], s[2], s[3], of_a, of_b[0], of_b[1]);\n"                                 \
           "    for (int i = 0; i < 4; i++)\n"                                                                         \
           "        p.y[(g + i / 2 * 8) * 8 + t + i % 2] = s[i];\n"                                                    \
           "}\n"

static void check_product(const char *source, enum att_host_mode mode) {
    float x[256 + 128];
    for (int i = 0; i < 256 + 128; i++)
        x[i] = (float)(i * 37 % 23 - 11);
    struct device device = device_open(mode, 0);
    struct params p = {device_buffer(&device, sizeof x, x), device_buffer(&device, 128 * 4, NULL), 0};
    run(&device, source, 32, p);
    for (int row = 0; row < 16; row++)
        for (int column = 0; column < 8; column++) {
            float sum = 1000;
            for (int k = 0; k < 16; k++)
                sum += x[row * 16 + k] * x[256 + k * 8 + column];
            cr_assert_eq(p.y[row * 8 + column], sum, "(%d, %d): %g, not %g", row, column, p.y[row * 8 + column], sum);
        }
    device_close(&device);
}

/* The same for a (16, 8) and b (8, 8) in TF32, where x has twice the columns. to_tf32 rounds 11 to 12 bits, and lower
   ones are cut. */
#define MULTIPLY_TF32                                                                                                  \
    KERNEL "    const int g = threadIdx.x / 4, t = threadIdx.x % 4;\n"                                                 \
           "    const float *b = p.x + 256;\n"                                                                         \
           "    unsigned of_a[4], of_b[2];\n"                                                                          \
           "    float s[2][4] = {{1000, 1000, 1000, 1000}};\n"                                                         \
           "    for (int step = 0; step < 2; step++) {\n"                                                              \
           "        for (int r = 0; r < 4; r++)\n"                                                                     \
           "            of_a[r] = to_tf32(p.x[(g + r % 2 * 8) * 16 + 8 * step + t + r / 2 * 4]) | 0x1fff;\n"           \
           "        for (int r = 0; r < 2; r++)\n"                                                                     \
           "            of_b[r] = to_tf32(b[(8 * step + t + r * 4) * 8 + g]);\n"                                       \
           "        mma_tf32(s[0], of_a, of_b[0], of_b[1]);\n"                                                         \
           "    }\n"                                                                                                   \
           "    for (int i = 0; i < 4; i++)\n"                                                                         \
           "        p.y[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = s[0][i];\n"                                             \
           "}\n"

/* Ties round away from 0. Infinities and NaN stay as they are, whatever their lower bits. */
Test(ampere, floats_are_rounded_to_tf32) {
    static const char source[] = KERNEL "    p.y[threadIdx.x] = __int_as_float((int)to_tf32(p.x[threadIdx.x])); }\n";
    float x[8] = {1 + 0x1p-11f, -1 - 0x1p-11f, 1 + 0x1.ffep-12f, 3, INFINITY, -INFINITY, NAN, 0x1.fffffep127f};
    const float expected[8] = {1 + 0x1p-10f, -1 - 0x1p-10f, 1, 3, INFINITY, -INFINITY, NAN, INFINITY};
    const uint32_t nan = 0x7fffffff; /* the GPU's NaN */
    memcpy(&x[6], &nan, sizeof nan);
    struct device device = device_open(ATT_HOST_CHECK, 0);
    struct params p = {device_buffer(&device, sizeof x, x), device_buffer(&device, sizeof x, NULL), 0};
    run(&device, source, 8, p);
    for (int i = 0; i < 8; i++)
        cr_expect(isnan(expected[i]) ? isnan(p.y[i]) : p.y[i] == expected[i], "%d: %a, not %a", i, p.y[i], expected[i]);
    device_close(&device);
}

Test(ampere, a_warp_multiplies) {
    check_product(MULTIPLY_TF32, ATT_HOST_CHECK);

    check_product(MULTIPLY(true), ATT_HOST_CHECK);
    check_product(MULTIPLY(false), ATT_HOST_CHECK);
    check_product(MULTIPLY(true), ATT_HOST_FAST);
}
