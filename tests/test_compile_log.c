/* The assembler's messages decide whether a kernel is used. The logs here are from ptxas 13.0. */
#include "compile_log.h"

#include <criterion/criterion.h>
#include <string.h>

static const char quiet[] = "ptxas info    : Function properties for k\n"
                            "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
                            "ptxas info    : Used 168 registers, used 1 barriers\n";
static const char spilled[] = "    72 bytes stack frame, 40 bytes spill stores, 44 bytes spill loads\n"
                              "    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n";

static bool refuses(const char *log, const char *words) {
    struct text reason = {0};
    bool refused = compile_log_refuses(log, &reason);
    cr_expect(strstr(text_string(&reason), words), "no \"%s\" in: %s", words, text_string(&reason));
    text_free(&reason);
    return refused;
}

/* The first advisory in the log is quoted, whichever it is. */
Test(compile_log, the_first_advisory_is_quoted) {
    static const char *const logs[] = {
        "warpgroup.wait is injected in around line 7\nPotential Performance Loss: wgmma is serialised\n",
        "Potential Performance Loss: wgmma is serialised\nwarpgroup.wait is injected in around line 7\n"};
    cr_expect(refuses(logs[0], "asynchronous work: warpgroup.wait is injected in around line 7"));
    cr_expect(refuses(logs[1], "asynchronous work: Potential Performance Loss: wgmma is serialised"));
}

Test(compile_log, spills_are_summed_over_entries) {
    cr_expect_eq(compile_log_spills(quiet), 0);
    cr_expect_eq(compile_log_spills(spilled), 40 + 44 + 4 + 4);
    cr_expect_eq(compile_log_spills("bytes stack frame, some bytes"), 0);
    cr_expect_eq(compile_log_spills(""), 0);
    cr_expect_not(refuses(spilled, ""), "where they matter, the binary says (test_nvrtc)");
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
        cr_expect(refuses(text_string(&log), lines[i]), "%s", lines[i]);
        text_free(&log);
    }
}
