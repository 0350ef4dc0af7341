#include "nvrtc.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const char *const add_one = "extern \"C\" __global__ void add_one(float *x) { x[threadIdx.x] += 1.0f; }\n";

static struct nvrtc *open_or_skip(void) {
    struct nvrtc *nvrtc;
    struct failure failure = {0};
    if (nvrtc_open(&nvrtc, &failure) == ATT_OK)
        return nvrtc;
    cr_assert_eq(failure.status, ATT_NO_COMPILER, "only a missing NVRTC may be skipped: %s",
                 text_string(&failure.text));
    cr_skip_test("no NVRTC here: %s", text_string(&failure.text));
    return NULL;
}

static enum att_status compile(const struct nvrtc *nvrtc, const char *source, const char *arch, const char *entry,
                               struct binary *binary, struct failure *failure) {
    struct compile_job job = {.source = source, .name = "sample.cu", .arch = arch, .entries = &entry, .entry_count = 1};
    return nvrtc_compile(nvrtc, &job, binary, failure);
}

Test(nvrtc, compiles_for_each_target_without_a_gpu) {
    struct nvrtc *nvrtc = open_or_skip();
    static const char *const archs[] = {"sm_80", "sm_90a"};
    for (int i = 0; i < 2; i++) {
        struct binary binary;
        struct failure failure = {0};
        cr_assert_eq(compile(nvrtc, add_one, archs[i], "add_one", &binary, &failure), ATT_OK, "%s",
                     text_string(&failure.text));
        cr_assert_geq(binary.size, 64);
        cr_assert_arr_eq(binary.bytes, "\177ELF", 4);
        cr_assert(binary.registers > 0 && binary.registers < 256, "%d registers", binary.registers);
        cr_assert_eq(binary.spill_bytes, 0);
        cr_assert(strstr(text_string(&binary.log), "add_one"), "the log names the kernel");
        binary_free(&binary);
    }
    nvrtc_close(nvrtc);
}

Test(nvrtc, makes_ptx_for_a_virtual_architecture) {
    struct nvrtc *nvrtc = open_or_skip();
    struct binary binary;
    struct failure failure = {0};
    cr_assert_eq(compile(nvrtc, add_one, "compute_80", "add_one", &binary, &failure), ATT_OK, "%s",
                 text_string(&failure.text));
    const char *ptx = binary.bytes;
    cr_assert_eq(strnlen(ptx, binary.size), binary.size - 1, "one NUL, the last byte");
    cr_expect(strstr(ptx, ".target sm_80") && strstr(ptx, ".entry add_one"));
    binary_free(&binary);
    cr_expect_not(nvrtc_knows(nvrtc, "compute_90a"), "it serves no later GPU");
    cr_expect_not(nvrtc_knows(nvrtc, "compute_"));
    nvrtc_close(nvrtc);
}

Test(nvrtc, same_source_gives_same_bytes) {
    struct nvrtc *nvrtc = open_or_skip();
    struct binary one, two;
    struct failure failure = {0};
    cr_assert_eq(compile(nvrtc, add_one, "sm_80", "add_one", &one, &failure), ATT_OK);
    cr_assert_eq(compile(nvrtc, add_one, "sm_80", "add_one", &two, &failure), ATT_OK);
    cr_assert_eq(one.size, two.size);
    cr_assert_arr_eq(one.bytes, two.bytes, one.size);
    binary_free(&one);
    binary_free(&two);
    nvrtc_close(nvrtc);
}

Test(nvrtc, reports_spills) {
    struct nvrtc *nvrtc = open_or_skip();
    static const char *const source =
        "extern \"C\" __global__ void __launch_bounds__(1024, 2) spiller(const float *x, float *y, int n) {\n"
        "    float a[96];\n"
        "#pragma unroll\n"
        "    for (int i = 0; i < 96; i++) a[i] = x[threadIdx.x + 1024 * i];\n"
        "    for (int k = 0; k < n; k++)\n"
        "#pragma unroll\n"
        "        for (int i = 0; i < 96; i++) a[i] = fmaf(a[i], a[(i + 31) % 96], x[k]);\n"
        "#pragma unroll\n"
        "    for (int i = 0; i < 96; i++) y[threadIdx.x + 1024 * i] = a[i];\n"
        "}\n";
    struct binary binary;
    struct failure failure = {0};
    cr_assert_eq(compile(nvrtc, source, "sm_80", "spiller", &binary, &failure), ATT_OK, "%s",
                 text_string(&failure.text));
    cr_assert_leq(binary.registers, 32);
    cr_assert_gt(binary.spill_bytes, 0);
    binary_free(&binary);
    nvrtc_close(nvrtc);
}

/* Prints a kernel of two wgmma products. More values than there are registers are live between them, or only after
   the last one. */
static void print_products(struct text *text, bool between) {
    enum { SUMS = 32 };
    static const char *const more = "#pragma unroll\n"
                                    "    for (int i = 0; i < 160; i++) kept[i] = x[threadIdx.x + 128 * i];\n"
                                    "    for (int j = 0; j < n; j++)\n"
                                    "#pragma unroll\n"
                                    "        for (int i = 0; i < 160; i++)\n"
                                    "            kept[i] = fmaf(kept[i], kept[(i + 31) % 160], c[i % 32]);\n";
    text_print(text, "__device__ __forceinline__ void multiply(float (&c)[32], unsigned long long a) {\n"
                     "    asm volatile(\"wgmma.fence.sync.aligned;\\n\"\n"
                     "        \"wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {");
    for (int i = 0; i < SUMS; i++)
        text_print(text, "%s%%%d", i ? ", " : "", i);
    text_print(text, "}, %%32, %%32, 1, 1, 1, 0, 0;\\n\"\n        \"wgmma.commit_group.sync.aligned;\\n\"\n"
                     "        \"wgmma.wait_group.sync.aligned 0;\\n\" : ");
    for (int i = 0; i < SUMS; i++)
        text_print(text, "%s\"+f\"(c[%d])", i ? ", " : "", i);
    text_print(text,
               " : \"l\"(a));\n}\n"
               "extern \"C\" __global__ void __launch_bounds__(128, 4)\n"
               "    k(const float *x, float *y, unsigned long long a, int n) {\n"
               "    float kept[160], c[32] = {};\n"
               "    multiply(c, a);\n%s    multiply(c, a + 1);\n%s"
               "#pragma unroll\n"
               "    for (int i = 0; i < 160; i++) y[threadIdx.x + 128 * i] = kept[i] + c[i %% 32];\n}\n",
               between ? more : "", between ? "" : more);
}

/* All compile without an error. */
Test(nvrtc, kernels_that_the_compiler_slowed_down_are_refused) {
    struct nvrtc *nvrtc = open_or_skip();
    struct text between = {0}, behind = {0};
    print_products(&between, true);
    print_products(&behind, false);
    const struct {
        const char *source, *words; /* null = not refused */
    } cases[] = {
        {"extern \"C\" __global__ void k(float *x) {\n"
         "    asm volatile(\"setmaxnreg.inc.sync.aligned.u32 240;\");\n"
         "    x[threadIdx.x] = 1;\n}\n",
         "setmaxnreg"},
        {text_string(&between), "spill registers, expected one in 30 at most"},
        {text_string(&behind), NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct binary binary;
        struct failure failure = {0};
        const char *words = cases[i].words;
        cr_expect_eq(compile(nvrtc, cases[i].source, "sm_90a", "k", &binary, &failure),
                     words ? ATT_COMPILE_FAILED : ATT_OK, "case %zu: %s", i, text_string(&failure.text));
        if (words) {
            cr_expect(strstr(text_string(&failure.text), words), "%s", text_string(&failure.text));
            cr_expect_null(binary.bytes);
        } else {
            cr_expect_gt(binary.spill_bytes, 0, "it spills, and may");
            binary_free(&binary);
        }
        failure_clear(&failure);
    }
    text_free(&between);
    text_free(&behind);
    nvrtc_close(nvrtc);
}

Test(nvrtc, failures_say_what_is_wrong) {
    struct nvrtc *nvrtc = open_or_skip();
    static const struct {
        const char *source, *arch, *entry;
        enum att_status status;
        const char *words;
    } cases[] = {
        {"extern \"C\" __global__ void k(float *x) { x[0] = y; }\n", "sm_80", "k", ATT_COMPILE_FAILED, "sample.cu(1)"},
        {"#include <stdio.h>\nextern \"C\" __global__ void k() {}\n", "sm_80", "k", ATT_COMPILE_FAILED, "stdio.h"},
        {add_one, "sm_80", "add_two", ATT_COMPILE_FAILED, "no kernel 'add_two'"},
        {add_one, "sm_90f0", "add_one", ATT_INVALID_ARGUMENT, "'sm_90f0' is no architecture"},
        {add_one, "sm_80 -G", "add_one", ATT_INVALID_ARGUMENT, "is no architecture"},
        {add_one, "", "add_one", ATT_INVALID_ARGUMENT, "is no architecture"},
        {add_one, "sm_-80", "add_one", ATT_INVALID_ARGUMENT, "is no architecture"},
        {add_one, "sm_998", "add_one", ATT_NO_COMPILER, "does not know sm_998"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct binary binary;
        struct failure failure = {0};
        enum att_status status = compile(nvrtc, cases[i].source, cases[i].arch, cases[i].entry, &binary, &failure);
        cr_expect_eq(status, cases[i].status, "case %zu: status %d: %s", i, status, text_string(&failure.text));
        cr_expect(strstr(text_string(&failure.text), cases[i].words), "case %zu: no \"%s\" in: %s", i, cases[i].words,
                  text_string(&failure.text));
        cr_expect_null(binary.bytes);
        failure_clear(&failure);
    }
    nvrtc_close(nvrtc);
}

Test(nvrtc, identity_names_version_build_and_options_but_no_paths) {
    struct nvrtc *nvrtc = open_or_skip();
    struct text one = {0}, two = {0};
    nvrtc_identity(nvrtc, "sm_80", &one);
    nvrtc_identity(nvrtc, "sm_90a", &two);
    cr_expect(strstr(text_string(&one), "-arch=sm_80"));
    cr_expect(strstr(text_string(&one), "\nbuild: "));
    cr_expect_null(strchr(text_string(&one), '/'), "a path would make equal builds differ: %s", text_string(&one));
    cr_expect_str_neq(text_string(&one), text_string(&two));
    struct nvrtc_info info;
    nvrtc_describe(nvrtc, &info);
    cr_expect(info.path && *info.path == '/');
    cr_expect(info.builtins, "libnvrtc-builtins should lie beside %s", info.path);
    text_free(&one);
    text_free(&two);
    nvrtc_close(nvrtc);
}

Test(nvrtc, an_explicit_path_is_never_replaced) {
    setenv("ATTILE_NVRTC", "/nonexistent/libnvrtc.so.13", 1);
    struct nvrtc *nvrtc;
    struct failure failure = {0};
    cr_assert_eq(nvrtc_open(&nvrtc, &failure), ATT_NO_COMPILER);
    cr_assert_null(nvrtc);
    cr_expect(strstr(text_string(&failure.text), "/nonexistent/libnvrtc.so.13"), "%s", text_string(&failure.text));
    cr_expect(strstr(text_string(&failure.text), "ATTILE_NVRTC"));
    failure_clear(&failure);
}

Test(nvrtc, a_library_that_is_not_nvrtc_is_refused) {
    setenv("ATTILE_NVRTC", "libyaml-0.so.2", 1);
    struct nvrtc *nvrtc;
    struct failure failure = {0};
    cr_assert_eq(nvrtc_open(&nvrtc, &failure), ATT_NO_COMPILER);
    cr_expect(strstr(text_string(&failure.text), "nvrtcVersion"), "%s", text_string(&failure.text));
    failure_clear(&failure);
}

static void *compile_some(void *context) {
    struct binary binary;
    struct failure failure = {0};
    enum att_status status = compile(context, add_one, "sm_80", "add_one", &binary, &failure);
    binary_free(&binary);
    return status == ATT_OK ? context : NULL;
}

Test(nvrtc, compiles_from_several_threads) {
    struct nvrtc *nvrtc = open_or_skip();
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, compile_some, nvrtc), 0);
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(threads[i], &result);
        cr_expect_not_null(result);
    }
    nvrtc_close(nvrtc);
}
