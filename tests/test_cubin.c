#include "cubin.h"
#include "nvrtc.h"

#include <criterion/criterion.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const two_kernels =
    "extern \"C\" __global__ void small(float *x) { x[threadIdx.x] = 1.0f; }\n"
    "extern \"C\" __global__ void large(const float *x, float *y) {\n"
    "    __shared__ float tile[256];\n"
    "    float a[24];\n"
    "    tile[threadIdx.x] = x[threadIdx.x];\n"
    "    __syncthreads();\n"
    "#pragma unroll\n"
    "    for (int i = 0; i < 24; i++) a[i] = tile[(threadIdx.x + i) % 256] * x[i];\n"
    "#pragma unroll\n"
    "    for (int i = 0; i < 24; i++) y[threadIdx.x * 24 + i] = a[i] * a[(i * 7) % 24];\n"
    "}\n";

static struct binary compile_or_skip(const char *arch) {
    struct nvrtc *nvrtc;
    struct failure failure = {0};
    struct binary binary;
    if (nvrtc_open(&nvrtc, &failure) != ATT_OK)
        cr_skip_test("no NVRTC here");
    const char *const entries[] = {"small", "large"};
    struct compile_job job = {
        .source = two_kernels, .name = "two.cu", .arch = arch, .entries = entries, .entry_count = 2};
    cr_assert_eq(nvrtc_compile(nvrtc, &job, &binary, &failure), ATT_OK, "%s", text_string(&failure.text));
    nvrtc_close(nvrtc);
    return binary;
}

/* Returns what ptxas itself reports: "Used N registers" after the line that names the kernel. */
static int registers_in_log(const char *log, const char *kernel) {
    char line[128];
    snprintf(line, sizeof line, "Compiling entry function '%s'", kernel);
    const char *at = strstr(log, line);
    at = at ? strstr(at, "Used ") : NULL;
    return at ? atoi(at + strlen("Used ")) : -1;
}

Test(cubin, agrees_with_the_compilers_own_report) {
    static const struct {
        const char *arch;
        int number, reserved;
    } archs[] = {{"sm_80", 80, 0}, {"sm_90a", 90, 1024}};
    for (int i = 0; i < 2; i++) {
        struct binary binary = compile_or_skip(archs[i].arch);
        struct cubin_usage small, large;
        cr_assert_eq(cubin_arch(binary.bytes, binary.size), archs[i].number);
        cr_assert(cubin_read(binary.bytes, binary.size, "small", &small));
        cr_assert(cubin_read(binary.bytes, binary.size, "large", &large));
        cr_expect_eq(small.registers, registers_in_log(text_string(&binary.log), "small"));
        cr_expect_eq(large.registers, registers_in_log(text_string(&binary.log), "large"));
        cr_expect_eq(binary.registers, large.registers, "the most of all entries");
        cr_expect_eq(small.static_shared, 0);
        cr_expect_gt(small.instructions, 4);
        cr_expect_gt(large.instructions, small.instructions + 48); /* loads and stores alone */
        cr_expect_eq(large.static_shared, 1024 + archs[i].reserved);
        cr_expect_eq(large.spills, 0);
        binary_free(&binary);
    }
}

Test(cubin, unknown_kernels_and_other_files_are_refused) {
    struct binary binary = compile_or_skip("sm_80");
    struct cubin_usage usage;
    cr_expect_not(cubin_read(binary.bytes, binary.size, "smal", &usage));
    cr_expect_not(cubin_read(binary.bytes, binary.size, "", &usage));
    cr_expect_not(cubin_read("", 0, "small", &usage));
    cr_expect_not(cubin_read(NULL, 0, "small", &usage));
    cr_expect_not(cubin_read("not an ELF file", 15, "small", &usage));
    cr_expect_eq(cubin_arch("\177ELF", 4), -1);
    unsigned char *x86 = malloc(binary.size);
    memcpy(x86, binary.bytes, binary.size);
    x86[18] = EM_X86_64;
    cr_expect_eq(cubin_arch(x86, binary.size), -1);
    cr_expect_not(cubin_read(x86, binary.size, "small", &usage));
    free(x86);
    binary_free(&binary);
}

/* Uses heap copies of exact size, so that the address sanitizer sees every byte read past the end. */
Test(cubin, every_truncation_is_survived) {
    struct binary binary = compile_or_skip("sm_80");
    for (size_t size = 0; size < binary.size; size += size < 256 ? 1 : 37) {
        char *part = malloc(size ? size : 1);
        struct cubin_usage usage;
        memcpy(part, binary.bytes, size);
        cr_expect_not(cubin_read(part, size, "large", &usage), "cut to %zu of %zu bytes", size, binary.size);
        free(part);
    }
    binary_free(&binary);
}

Test(cubin, damage_never_reads_out_of_bounds) {
    struct binary binary = compile_or_skip("sm_90a");
    char *copy = malloc(binary.size);
    memcpy(copy, binary.bytes, binary.size);
    for (size_t i = 0; i < binary.size; i++) {
        static const unsigned char values[] = {0x00, 0x7f, 0x80, 0xff};
        char kept = copy[i];
        for (int j = 0; j < 4; j++) {
            struct cubin_usage usage;
            copy[i] = (char)values[j];
            if (cubin_read(copy, binary.size, "large", &usage))
                cr_expect(usage.registers >= 0 && usage.static_shared >= 0 && usage.spills >= 0 &&
                          usage.spills_among_products >= 0 && usage.spills_among_products <= usage.spills &&
                          usage.instructions_among_products <= usage.instructions);
        }
        copy[i] = kept;
    }
    free(copy);
    binary_free(&binary);
}
