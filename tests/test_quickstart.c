/* quickstart with stand-ins for cmake and the package tools, which log how they are called. */
#include "helper_folder.h"
#include "file.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* Sets up a machine without any packages, and an `attile` that reports $NVRTC as `doctor` does. */
static void enter(void) {
    folder_enter();
    static const char script[] =
        "mkdir -p bin build/release/cli && cp " SOURCE_DIR "/quickstart . && "
        "for tool in cmake ctest sudo env python3; do printf '#!/bin/sh\\necho %s \"$@\" >>called\\n' $tool "
        ">bin/$tool; done;"
        "printf '#!/bin/sh\\nexit 1\\n' >bin/dpkg-query;"
        "printf '#!/bin/sh\\ngrep -qs criterion called\\n' >bin/pkg-config;"
        "printf '#!/bin/sh\\necho \"nvrtc         $NVRTC\"; echo attile \"$@\" >>called\\n' >build/release/cli/attile;"
        "chmod +x bin/* build/release/cli/attile";
    cr_assert_eq(system(script), 0);
}

TestSuite(quickstart, .init = enter, .fini = folder_leave);

/* Returns the exit status; `called` gets what was called. */
static int run(const char *environment, const char *words, struct text *called) {
    struct text command = {0}, error = {0};
    *called = (struct text){0};
    text_print(&command, "PATH=$PWD/bin:$PATH %s ./quickstart %s >out 2>&1 </dev/null", environment, words);
    int status = system(text_string(&command));
    file_load("called", 1 << 20, called, &error);
    text_free(&command);
    text_free(&error);
    return WEXITSTATUS(status);
}

static bool holds(const struct text *text, const char *words) { return strstr(text_string(text), words) != NULL; }

Test(quickstart, builds_and_runs_the_command_without_what_only_tests_need) {
    struct text called;
    cr_expect_eq(run("NVRTC=ok", "", &called), 0);
    cr_expect(holds(&called, "-DATTILE_TESTS=OFF") && holds(&called, "--target attile\n"), "%s", text_string(&called));
    cr_expect(holds(&called, "attile run specs/quickstart.yaml\n"), "%s", text_string(&called));
    cr_expect(holds(&called, "libyaml-dev"), "%s", text_string(&called));
    cr_expect_not(holds(&called, "criterion") || holds(&called, "python3"), "%s", text_string(&called));
    text_free(&called);
}

Test(quickstart, test_builds_everything_and_runs_the_tests) {
    struct text called;
    cr_expect_eq(run("NVRTC=ok", "test", &called), 0);
    cr_expect(holds(&called, "libcriterion-dev") && holds(&called, "-DATTILE_TESTS=ON"), "%s", text_string(&called));
    cr_expect(holds(&called, "ctest --test-dir build/release"), "%s", text_string(&called));
    text_free(&called);
}

Test(quickstart, fetches_nvrtc_where_the_command_finds_none) {
    struct text called;
    cr_expect_eq(run("NVRTC=missing", "setup", &called), 0, "without it the rest works");
    cr_expect(holds(&called, "python3 -m pip"), "%s", text_string(&called));
    text_free(&called);
}

Test(quickstart, make_serves_where_ninja_is_not) {
    struct text called;
    cr_assert_eq(system("for tool in sh dirname id nproc sed sleep tail grep rm mkdir make mv dpkg-query; do "
                        "[ -e bin/$tool ] || ln -s $(command -v $tool) bin/; done"),
                 0);
    cr_expect_eq(run("PATH=$PWD/bin NVRTC=ok", "setup", &called), 0);
    cr_expect(holds(&called, "-G Unix Makefiles"), "%s", text_string(&called));
    cr_expect_not(holds(&called, "ninja"), "%s", text_string(&called));
    text_free(&called);
}

Test(quickstart, words_are_checked_before_anything_is_done) {
    static const struct {
        const char *words;
        int code;
        const char *says;
    } cases[] = {{"--help", 0, "quickstart test "},
                 {"-h", 0, "quickstart test "},
                 {"tset", 1, "unknown job 'tset'"},
                 {"test --quiet", 1, "expected one word"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct text called, out = {0}, error = {0};
        cr_expect_eq(run("", cases[i].words, &called), cases[i].code, "%s", cases[i].words);
        cr_expect(file_load("out", 1 << 20, &out, &error) && holds(&out, cases[i].says), "%s", text_string(&out));
        cr_expect_eq(called.size, 0, "%s: %s", cases[i].words, text_string(&called));
        text_free(&called);
        text_free(&out);
    }
}
