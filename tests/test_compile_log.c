/* The words of the assembler decide whether a kernel is used. The logs here are ptxas 13.0's own. */
#include "compile_log.h"

#include <criterion/criterion.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>

static const char quiet[] = "ptxas info    : Function properties for k\n"
                            "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
                            "ptxas info    : Used 168 registers, used 1 barriers\n";
static const char spilled[] = "    72 bytes stack frame, 40 bytes spill stores, 44 bytes spill loads\n"
                              "    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n";

static bool refuses(const char *source, const char *log, const char *words) {
    struct text reason = {0};
    bool refused = compile_log_refuses(source, log, &reason);
    cr_expect(strstr(text_string(&reason), words), "no \"%s\" in: %s", words, text_string(&reason));
    text_free(&reason);
    return refused;
}

/* Of several, the first in the log is quoted, whichever it is. */
Test(compile_log, the_first_advisory_is_quoted) {
    static const char *const logs[] = {
        "warpgroup.wait is injected in around line 7\nPotential Performance Loss: wgmma is serialised\n",
        "Potential Performance Loss: wgmma is serialised\nwarpgroup.wait is injected in around line 7\n"};
    cr_expect(refuses("", logs[0], "asynchronous work: warpgroup.wait is injected in around line 7"));
    cr_expect(refuses("", logs[1], "asynchronous work: Potential Performance Loss: wgmma is serialised"));
}

Test(compile_log, spills_are_summed_over_entries) {
    cr_expect_eq(compile_log_spills(quiet), 0);
    cr_expect_eq(compile_log_spills(spilled), 40 + 44 + 4 + 4);
    cr_expect_eq(compile_log_spills("bytes stack frame, some bytes"), 0);
    cr_expect_eq(compile_log_spills(""), 0);
}

Test(compile_log, spills_are_refused_only_where_registers_are_dealt_out) {
    cr_expect(refuses("... setmaxnreg.inc ...", spilled, "92 bytes of registers are spilled"));
    cr_expect_not(refuses("plain", spilled, ""));
    cr_expect_not(refuses("setmaxnreg", quiet, ""));
}

/* Two kernels in one source: only the first deals out registers. */
#define ENTRY(name, bytes)                                                                                             \
    "ptxas info    : Compiling entry function '" name "' for 'sm_90a'\n"                                               \
    "ptxas info    : Function properties for " name "\n"                                                               \
    "ptxas         .     8 bytes stack frame, " bytes " bytes spill stores, 0 bytes spill loads\n"

Test(compile_log, a_kernel_that_comes_along_may_spill) {
    static const char source[] =
        "extern \"C\" __global__ void __launch_bounds__(128) map(const int p) {\n    map_more(p);\n}\n"
        "template <int COUNT> void registers_acquire() {\n    asm volatile(\"setmaxnreg.inc\" ::\"n\"(COUNT));\n}\n"
        "extern \"C\" __global__ void\n    __launch_bounds__(384, 1) proper(const int p) {\n"
        "    if (p) {\n        registers_acquire<240>();\n    }\n}\n"
        "extern \"C\" __global__ void last(const int p) {\n}\n";
    cr_expect_not(refuses(source, ENTRY("proper", "0") ENTRY("map", "36") ENTRY("last", "8"), ""));
    cr_expect(refuses(source, ENTRY("map", "36") ENTRY("proper", "4") ENTRY("last", "8"), "4 bytes of registers"));
}

/* It knows the wrapper of setmaxnreg by name: here are kernels that have it, or call a function that has it. */
Test(compile_log, emitted_kernels_are_seen_to_deal_out_registers) {
    static const struct {
        const char *files, *deals_out, *does_not;
    } emitted[] = {
        {"attention_forward_*_flash_async_*", ENTRY("attention_flash_async", "4"), ENTRY("attention_flash", "4")},
        {"attention_backward_*_d64_*_flash_async_*", ENTRY("attention_dk_dv_dq", "4"),
         ENTRY("attention_round_dq", "4")},
    };
    for (size_t i = 0; i < sizeof emitted / sizeof *emitted; i++) {
        glob_t found;
        struct text source = {0};
        char bytes[4096], pattern[256];
        size_t size;
        snprintf(pattern, sizeof pattern, SOURCE_DIR "/tests/golden/%s.cu", emitted[i].files);
        cr_assert_eq(glob(pattern, 0, NULL, &found), 0, "%s", pattern);
        FILE *file = fopen(found.gl_pathv[0], "r");
        cr_assert(file, "%s", found.gl_pathv[0]);
        while ((size = fread(bytes, 1, sizeof bytes, file)) > 0)
            text_append(&source, bytes, size);
        fclose(file);
        cr_expect(refuses(text_string(&source), emitted[i].deals_out, "4 bytes of registers"), "%s", found.gl_pathv[0]);
        cr_expect_not(refuses(text_string(&source), emitted[i].does_not, ""), "%s", found.gl_pathv[0]);
        text_free(&source);
        globfree(&found);
    }
}

Test(compile_log, every_advisory_is_refused_with_its_own_line) {
    static const char *const lines[] = {
        "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count "
        "at entry",
        "ptxas info    : (C7514) Potential Performance Loss: wgmma.mma_async instructions are serialized due to non "
        "wgmma instructions reading accumulator registers of a wgmma between start and end of the pipeline stage in "
        "the function 'k'",
        "ptxas info    : (C7517) warpgroup.wait is injected in around line 12 by compiler to allow use of registers in "
        "GMMA in function 'k'",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct text log = {0};
        text_print(&log, "%s%s\n%s", quiet, lines[i], quiet);
        cr_expect(refuses("plain", text_string(&log), lines[i]), "%s", lines[i]);
        text_free(&log);
    }
}
