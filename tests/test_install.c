/* What users get: the names in the libraries, and the files of an installation. */
#include "helper_folder.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(install, .init = folder_enter, .fini = folder_leave);

static int shell(const char *format, const char *word) {
    char command[1024];
    snprintf(command, sizeof command, format, word);
    return system(command);
}

/* Stores the names without the prefix in `found`, one per line. */
static void foreign_names(const char *command, char *found, size_t size) {
    char line[512], name[256], type;
    int names = 0;
    size_t used = 0;
    FILE *file = popen(command, "r");
    found[0] = '\0';
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%*s %c %255s", &type, name) != 2 || type == 'A') /* A: the version itself */
            continue;
        names++;
        if (strncmp(name, "att_", 4) != 0 && used + strlen(name) + 2 < size)
            used += (size_t)snprintf(found + used, size - used, "%s\n", name);
    }
    cr_expect_eq(pclose(file), 0);
    cr_expect_geq(names, 20, "%s: %d names", command, names);
}

/* A program with its own text_free, or with another version of attile, must link and run. */
Test(install, libraries_define_names_of_attile_h_alone) {
    static const char *const commands[] = {"nm -g --defined-only " BUILD_DIR "/runtime/libattile.a",
                                           "nm -D --defined-only " BUILD_DIR "/runtime/libattile.so"};
    char found[4096];
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        foreign_names(commands[i], found, sizeof found);
        cr_expect_str_empty(found, "%s:\n%s", commands[i], found);
    }
}

Test(install, the_shared_library_names_the_version_of_its_interface) {
    cr_expect_eq(shell("readelf -d %s/runtime/libattile.so | grep -q 'soname: .libattile.so.0.1.$'", BUILD_DIR), 0);
    cr_expect_eq(shell("nm -D %s/runtime/libattile.so | grep -q ' att_open@@ATTILE_0.1$'", BUILD_DIR), 0);
}

Test(install, two_copies_work_in_one_process) {
    cr_expect_eq(shell("cp %s/runtime/libattile.so one.so && cp one.so two.so", BUILD_DIR), 0);
    cr_expect_eq(shell(BUILD_DIR "/tests/plugin_probe %s/cache ./one.so ./two.so", folder_path()), 0);
}

Test(install, it_is_whole_and_looks_for_nothing_in_the_source_tree) {
    static const char *const files[] = {"include/attile.h",
                                        "share/doc/attile/LICENSE",
                                        "lib/pkgconfig/attile.pc",
                                        "lib/cmake/attile/attileConfig.cmake",
                                        "lib/libattile.a",
                                        "lib/libattile.so.0.1",
                                        "bin/attile"};
    cr_assert_eq(shell("cmake --install %s --prefix at >log 2>&1 || { cat log; false; }", BUILD_DIR), 0);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[128];
        snprintf(path, sizeof path, "at/%s", files[i]);
        cr_expect_eq(access(path, R_OK), 0, "%s is missing", files[i]);
    }
    /* quickstart puts NVRTC into .deps: a build here finds it, but an installation must not depend on it */
    cr_expect_eq(shell("readelf -d %s/cli/attile | grep -q '" SOURCE_DIR "/.deps/nvrtc'", BUILD_DIR), 0);
    cr_expect_neq(shell("readelf -d %s | grep -q '" SOURCE_DIR "'", "at/bin/attile at/lib/libattile.so"), 0);
    cr_expect_eq(shell("at/bin/attile %s >/dev/null", "version"), 0);
}

/* Code that a C++ compiler made ahead of time runs where there is no compiler. */
Test(install, a_program_with_a_bundle_for_the_cpu_needs_no_compiler) {
    static const char program[] =
        "#include <attile.h>\n"
        "#include <stdio.h>\n"
        "extern const struct att_bundle attile_kernels;\n"
        "int main(void) {\n"
        "    const struct att_bundle *const bundles[] = {&attile_kernels, NULL};\n"
        "    struct att_options options = {.size = sizeof options, .device = ATT_DEVICE_HOST, .no_disk_cache = 1,\n"
        "                                  .host_mode = ATT_HOST_FAST, .bundles = bundles};\n"
        "    struct att_kernel_info info = {.size = sizeof info};\n"
        "    att_session *session;\n"
        "    att_kernel *kernel;\n"
        "    if (att_open(&options, &session) || att_find(session, \"family=softmax\", NULL, &kernel) ||\n"
        "        att_kernel_describe(kernel, &info))\n"
        "        return puts(att_message(session)), 1;\n"
        "    float row[] = {1, 1, 1, 1};\n"
        "    struct att_args args = {.size = sizeof args, .family = ATT_SOFTMAX, .softmax = {row, row, 4, 4, 1, 4}};\n"
        "    puts(info.from);\n"
        "    int wrong = att_launch(kernel, &args, NULL) || row[2] != 0.25f;\n"
        "    att_close(session);\n"
        "    return wrong;\n"
        "}\n";
    FILE *file = fopen("program.c", "w");
    fputs(program, file);
    fclose(file);
    cr_assert_eq(
        shell("ATTILE_CACHE_DIR=$PWD %s/cli/attile build 'family=softmax algorithm=online' --arch host_fast -q -o .",
              BUILD_DIR),
        0);
    cr_assert_eq(
        shell(COMPILE " -I" SOURCE_DIR "/runtime program.c kernels.c %s/runtime/libattile.so -o program", BUILD_DIR),
        0);
    cr_expect_eq(shell("PATH= CXX= LD_LIBRARY_PATH=%s/runtime ./program >out", BUILD_DIR), 0);
    cr_expect_eq(shell("grep -q %s out", "bundle"), 0);
}
