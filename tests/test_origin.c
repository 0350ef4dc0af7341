#include "origin.h"
#include "template_folder.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct line_origin origins[] = {{NULL, 0}, {"attention.cu", 10}, {"part/mask.cuh", 3}, {"attention.cu", 11}};
static const struct source source = {.origin = origins, .lines = 4};

static void expect(const char *log, const char *expected) {
    struct text text = {0};
    origin_explain(&source, "k.cu", log, &text);
    cr_expect_str_eq(text_string(&text), expected, "for \"%s\":\n%s", log, text_string(&text));
    text_free(&text);
}

Test(origin, both_compilers_forms_are_understood) {
    expect("k.cu(2): error: identifier \"x\" is undefined\n", "k.cu:2 comes from attention.cu:10\n");
    expect("k.cu:3:14: error: 'x' was not declared\n", "k.cu:3 comes from part/mask.cuh:3\n");
    expect("k.cu(1): error\n", "k.cu:1 was written by the generator\n");
}

Test(origin, each_line_is_told_once_in_the_order_of_the_log) {
    expect("k.cu(4): a\nk.cu(2): b\nk.cu(4): c\n",
           "k.cu:4 comes from attention.cu:11\nk.cu:2 comes from attention.cu:10\n");
}

Test(origin, what_is_no_line_of_the_source_is_passed_over) {
    static const char *const logs[] = {"",           "no file here", "k.cu",    "k.cu(",
                                       "k.cu()",     "k.cu(0)",      "k.cu(5)", "k.cu(-1)",
                                       "k.cu(2",     "k.cu(2:",      "k.cu:2)", "k.cu(99999999999999999999)",
                                       "other.cu(2)"};
    for (size_t i = 0; i < sizeof logs / sizeof *logs; i++)
        expect(logs[i], "");
}

/* --- templates from a folder -------------------------------------------------------------------------------------- */

Test(template_folder, reads_files_once_and_only_its_own) {
    char path[] = "/tmp/attile-folder-XXXXXX", name[64];
    size_t size = 77;
    cr_assert_not_null(mkdtemp(path));
    snprintf(name, sizeof name, "%s/a.cu", path);
    FILE *file = fopen(name, "wb");
    cr_assert_not_null(file);
    fputs("one\n", file);
    fclose(file);
    struct template_folder *folder = template_folder_open(path);
    const char *text = template_folder_load(folder, "a.cu", &size);
    cr_assert_not_null(text);
    cr_expect_eq(size, 4);
    cr_expect_str_eq(text, "one\n");
    unlink(name);
    cr_expect_eq(template_folder_load(folder, "a.cu", &size), text, "kept, so that one set sees one text");
    static const char *const outside[] = {"b.cu", "../a.cu", "part/../../a.cu", "/etc/hostname",
                                          "..",   "part/..", "part/../a.cu",    "a/b/../c"};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
        cr_expect_null(template_folder_load(folder, outside[i], &size), "%s", outside[i]);
    template_folder_close(folder);
    template_folder_close(NULL);
    rmdir(path);
}

Test(template_folder, has_its_own_tables_of_defaults) {
    static const char *const files[][2] = {
        {"softmax_online.cu", "//$ defaults \"d.yaml\"\n//$ launch f grid rows block threads shared 0\n"},
        {"d.yaml", "defaults: [{name: all, schedule: {threads: 96}}]\n"}};
    char path[] = "/tmp/attile-folder-XXXXXX", name[2][64];
    cr_assert_not_null(mkdtemp(path));
    for (int i = 0; i < 2; i++) {
        snprintf(name[i], sizeof name[i], "%s/%s", path, files[i][0]);
        FILE *file = fopen(name[i], "wb");
        cr_assert_not_null(file);
        fputs(files[i][1], file);
        fclose(file);
    }
    struct diag diag = {0};
    struct template_folder *folder = template_folder_open(path);
    struct template_set *set = template_folder_parse(folder, &diag);
    cr_assert_not_null(set, "%s", text_string(&diag.text));
    struct knobs knobs = knobs_default();
    struct variant variant;
    knobs.family = family_softmax;
    knobs.algorithm = algorithm_online;
    cr_assert(variant_complete(set, &knobs, true, &variant), "%s", variant.reason);
    cr_expect_eq(variant.knobs.threads, 96);
    template_set_close(set);
    template_folder_close(folder);
    unlink(name[0]);
    unlink(name[1]);
    rmdir(path);
}

static void write_template(const char *folder, const char *name) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    cr_assert_not_null(file);
    fputs("//$ launch f grid rows block 32 shared 0\n//$ include \"part/x.cuh\"\n", file);
    fclose(file);
}

/* Each is refused with its own message; a pipe is not waited for. */
Test(template_folder, what_cannot_be_a_template_of_the_folder_is_refused) {
    static const char including[] = "softmax_three_pass.cu";
    static const struct {
        const char *command; /* in the folder */
        const char *says;
    } cases[] = {
        {"mkfifo part/x.cuh", "part/x.cuh: it is no regular file"},
        {"mkdir part/x.cuh", "part/x.cuh: it is no regular file"},
        {"ln -s /etc/hostname part/x.cuh", "part/x.cuh: this link leads out of the folder; put a copy there"},
        {"ln -s .. part/up && ln -s up/../outside part/x.cuh && touch ../outside", "leads out of the folder"},
        {"rmdir part && ln -s /etc part && sed -i s/x.cuh/hostname/ *.cu", "part/hostname: this link leads out"},
        {"sed -i 's/x.cuh/..\\/..\\/x/' *.cu", "part/../../x: this name leads out of the folder"},
        {"truncate -s 1048577 part/x.cuh", "part/x.cuh: it is larger than 1 MiB"},
        {"rm *.cu && mkfifo softmax_three_pass.cu", "softmax_three_pass.cu: it is no regular file"},
        {"true", "template 'part/x.cuh' does not exist"},
        {"mkdir there && touch there/x.cuh && ln -s ../there/x.cuh part/x.cuh", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[] = "/tmp/attile-folder-XXXXXX", inner[64], command[256];
        struct diag diag = {0};
        cr_assert_not_null(mkdtemp(path));
        snprintf(inner, sizeof inner, "%s/t", path);
        snprintf(command, sizeof command, "mkdir -p %s/part", inner);
        cr_assert_eq(system(command), 0);
        write_template(inner, including);
        snprintf(command, sizeof command, "cd %s && %s", inner, cases[i].command);
        cr_assert_eq(system(command), 0, "%s", command);
        struct template_folder *folder = template_folder_open(inner);
        struct template_set *set = template_folder_parse(folder, &diag);
        cr_expect_eq(set != NULL, cases[i].says == NULL, "%s: %s", cases[i].command, text_string(&diag.text));
        cr_expect(!cases[i].says || strstr(text_string(&diag.text), cases[i].says), "%s: %s", cases[i].command,
                  text_string(&diag.text));
        cr_expect_eq(diag.errors, cases[i].says != NULL, "%s", text_string(&diag.text));
        diag_free(&diag);
        template_set_close(set);
        template_folder_close(folder);
        snprintf(command, sizeof command, "rm -r %s", path);
        cr_assert_eq(system(command), 0);
    }
}
