#include "gen.h"
#include "helper_cases.h"
#include "yaml_reader.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct spec *read_text(const struct text *text, struct diag *diag) {
    return spec_read("spec", text_string(text), text->size, diag);
}

/* --- text cases ------------------------------------------------------------------------------------------------ */

static void print_axes(const struct spec *spec, struct text *output) {
    for (int id = 0; id < KNOB_COUNT; id++) {
        const struct spec_axis *axis = &spec->axis[id];
        if (axis->place.line == 0)
            continue;
        text_print(output, "%s:", knob_table[id].name);
        for (int i = 0; i < axis->count; i++)
            if (knob_table[id].kind == KNOB_KIND_INT)
                text_print(output, " %d", axis->value[i]);
            else
                text_print(output, " %s", knob_word_name((enum knob_id)id, axis->value[i]));
        text_print(output, "\n");
    }
}

static void print_spec(const struct spec *spec, struct text *output) {
    if (*spec->about)
        text_print(output, "about: %s\n", spec->about);
    print_axes(spec, output);
    for (int i = 0; i < spec->requires; i++)
        text_print(output, "require at %d:%d\n", spec->require_place[i].line, spec->require_place[i].col);
    for (int i = 0; i < spec->shapes; i++) {
        text_print(output, "shape:");
        for (int id = 0; id < SHAPE_COUNT; id++)
            if (shape_table[id].families & 1u << spec->family)
                text_print(output, " %s %lld", shape_table[id].name,
                           (long long)shape_get(&spec->shape[i], (enum shape_id)id));
        text_print(output, "\n");
    }
    for (int i = 0; i < spec->inputs; i++)
        text_print(output, "input: %s from %s\n", spec->input_file[i].name, spec->input_file[i].path);
}

static void run_case(const char *title, const char *text, size_t size, struct text *output) {
    struct diag diag = {0};
    struct spec *spec = spec_read("spec", text, size, &diag);
    cr_assert_eq(spec != NULL, diag.errors == 0, "%s", title);
    text_append(output, text_string(&diag.text), diag.text.size);
    if (spec)
        print_spec(spec, output);
    spec_free(spec);
    diag_free(&diag);
}

Test(spec, gives_what_the_text_cases_say) {
    static const char *const files[] = {"good", "keys", "values", "require", "test", "yaml"};
    int count = 0;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[64];
        snprintf(path, sizeof path, "spec/%s.txt", files[i]);
        cr_expect_eq(cases_check(path, run_case, &count), 0, "%s", path);
    }
    cr_assert_geq(count, 100);
}

/* --- bytes ----------------------------------------------------------------------------------------------------- */

Test(spec, refuses_bytes_that_are_not_plain_utf8_text_and_says_where) {
    static const struct {
        const char *bytes;
        size_t size;
        const char *message;
    } cases[] = {
        {"family: soft\xffmax\n", 17, "spec:1:13: error: byte 0xff is not UTF-8"},
        {"family: softmax\nabout: \xc0\xaf\n", 26, "spec:2:8: error: byte 0xc0 is not UTF-8"},
        {"about: \xe2\x82 \n", 11, "spec:1:8: error: byte 0xe2 is not UTF-8"},
        {"about: \xed\xa0\x80\n", 11, "spec:1:8: error: byte 0xed is not UTF-8"},
        {"about: \xe2\x82", 9, "spec:1:8: error: byte 0xe2 is not UTF-8"},
        {"about: \xf4\x90\x80\x80\n", 12, "spec:1:8: error: byte 0xf4 is not UTF-8"},
        {"\xef\xbb\xbf"
         "family: softmax\n",
         19, "spec:1:1: error: byte order mark"},
        {"\xff\xfe"
         "f\0a\0",
         6, "spec:1:1: error: byte 0xff is not UTF-8"},
        {"f\0a\0m\0", 6, "spec:1:2: error: zero byte"},
        {"family: softmax\rabout: x\n", 25, "spec:1:16: error: a carriage return must be followed by a newline"},
        {"family: softmax\x1b[31m\n", 21, "spec:1:16: error: control character (U+001B)"},
        {"about: a\xe2\x80\xa8"
         "b\n",
         13, "spec:1:9: error: unusual line break"},
        {"about: a\xc2\x85"
         "b\n",
         12, "spec:1:9: error: unusual line break"},
        {"family: softmax\nabout: \"a\\0b\"\n", 30, "spec:2:8: error: this value holds a zero byte"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct diag diag = {0};
        cr_expect_null(spec_read("spec", cases[i].bytes, cases[i].size, &diag), "case %zu", i);
        cr_expect_eq(strncmp(text_string(&diag.text), cases[i].message, strlen(cases[i].message)), 0, "case %zu: %s", i,
                     text_string(&diag.text));
        cr_expect_eq(diag.errors, 1, "case %zu", i);
        diag_free(&diag);
    }
}

Test(spec, reads_windows_line_ends) {
    static const char text[] = "family: softmax\r\nproblem:\r\n  dtype: fp16\r\nabuot: x\r\n";
    struct diag diag = {0};
    cr_assert_null(spec_read("spec", text, strlen(text), &diag));
    cr_assert_not_null(strstr(text_string(&diag.text), "spec:4:1: error: unknown key 'abuot'"), "%s",
                       text_string(&diag.text));
    cr_assert_eq(diag.errors, 1);
    diag_free(&diag);
}

Test(spec, needs_no_nul_at_the_end_of_the_text) {
    static const char text[] = "family: softmax";
    char *exact = malloc(strlen(text)); /* the address sanitizer watches what follows */
    struct diag diag = {0};
    memcpy(exact, text, strlen(text));
    struct spec *spec = spec_read("spec", exact, strlen(text), &diag);
    cr_assert_not_null(spec);
    spec_free(spec);
    free(exact);
}

Test(spec, stays_valid_when_its_text_is_gone) {
    char text[] = "family: softmax\nabout: here\n";
    struct diag diag = {0};
    struct spec *spec = spec_read("spec", text, strlen(text), &diag);
    memset(text, 'x', sizeof text - 1);
    cr_assert_str_eq(spec->about, "here");
    cr_assert_str_eq(spec->input.text, "family: softmax\nabout: here\n");
    spec_free(spec);
}

/* --- limits ---------------------------------------------------------------------------------------------------- */

static void repeat(struct text *text, const char *part, size_t size) {
    while (text->size + strlen(part) <= size)
        text_append(text, part, strlen(part));
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Hostile texts: a start, a part repeated (0 = until a mebibyte is full), an end, and the expected message;
   "" = none. */
static const struct {
    const char *start, *part;
    int count;
    const char *end, *message;
} floods[] = {
    {"", "[", 0, "", "nested too deeply"},
    {"", "{a: ", 0, "", "nested too deeply"},
    {"", "- ", 0, "", "nested too deeply"},
    {"", "? ", 0, "", "must be a single word"},
    {"", "a\n", 0, "", "too long"},
    {"a: ", "[a,", 0, "", "nested too deeply"},
    {"family: softmax\nproblem: {dtype: [", "fp16, ", 19000, "]}", "appears twice"},
    {"family: softmax\nproblem: {dtype: [", "x, ", 19000, "]}", "must be fp32, fp16 or bf16"},
    {"family: softmax\nproblem: {head_dim: [", "01, ", 19000, "]}", "leading zero"},
    {"family: softmax\nproblem: {dtype: [", "a_word_as_long_as_a_word_that_is_compared_with_others_can_be_63, ", 0, "",
     "did not find"},
    {"family: softmax\nproblem: {dtype: [", "a_word_as_long_as_a_word_that_is_compared_with_others_can_be_63, ", 16000,
     "]}", "must be fp32"},
    {"family: attention_forward\nrequire: [", "a, ", 19000, "]", "unknown"},
    {"family: attention_forward\nrequire: [", "'block_m > 1', ", 19000, "]", ""},
    {"family: attention_forward\nrequire: [\"", "((((((((((", 400, "\"]", "error"},
    {"family: attention_forward\nrequire: [\"", "((((((((((", 0, "", "end of stream"},
    {"family: softmax\ntest: {shapes: [", "{rows: 1, cols: 1}, ", 0, "", "more than 20000"},
    {"family: softmax\ntest: {shapes: [", "{rows: 1, cols: 1}, ", 3000, "]}", "at most 64 shapes"},
    {"family: softmax\n", "a: 1\n", 0, "", "appears twice"},
    {"family: softmax\nabout: \"", "long ", 0, "", "end of stream"},
    {"family: softmax\nabout: ", "long ", 0, "", "too long"},
    {"family: softmax\nabout: |\n", " long\n", 0, "", "too long"},
    {"family: softmax\nabout: &a x\nproblem: [", "*a, ", 0, "", "aliases"},
    {"family: softmax\nproblem: [", "&a x, ", 0, "", "anchors"},
    {"family: softmax\nabout: [", "!!str x, ", 0, "", "tags"},
    {"family: softmax\nabout: [", "\xf0\x9f\x98\x80, ", 0, "", "more than 20000"},
    {"family: softmax\n", "---\n", 0, "", "second document"},
    {"family: softmax\n", "...\n", 0, "", ""},
    {"family: softmax\n", "# comment\n", 0, "", ""},
    {"family: softmax\n", "\n", 0, "", ""},
    {"%TAG !a! tag:\n", "%TAG !a! tag:\n", 0, "", "found duplicate %TAG directive"},
    {"family: softmax\nabout: [", "'' ,", 0, "", "more than 20000"},
    {"family: softmax\nabout: [", ",", 0, "", "did not find expected node content"},
    {"family: softmax\nabout: {", "? a : b,", 0, "", "appears twice"},
    {"family: softmax\n", "\"a\" : ", 0, "", "not allowed in this context"},
};

Test(spec, refuses_a_hostile_mebibyte_quickly, .timeout = 300) {
    for (size_t i = 0; i < sizeof floods / sizeof *floods; i++) {
        struct text text = {0};
        struct diag diag = {0};
        text_append(&text, floods[i].start, strlen(floods[i].start));
        size_t all = text.size + (size_t)floods[i].count * strlen(floods[i].part);
        repeat(&text, floods[i].part, floods[i].count ? all : YAML_BYTES);
        text_append(&text, floods[i].end, strlen(floods[i].end));
        double start = seconds();
        struct spec *spec = read_text(&text, &diag);
        double taken = seconds() - start; /* CPU time, about 0.05 s at most */
        cr_expect_eq(spec != NULL, floods[i].message[0] == '\0', "flood %zu", i);
        spec_free(spec);
        cr_expect_not_null(strstr(text_string(&diag.text), floods[i].message), "flood %zu of '%s': %.2000s", i,
                           floods[i].part, text_string(&diag.text));
        cr_expect_leq(diag.errors, DIAG_LIMIT + 1, "flood %zu: %d errors", i, diag.errors);
        cr_expect_lt(taken, 5, "flood %zu of '%s' took %.3f s", i, floods[i].part, taken); /* sanitizers included */
        diag_free(&diag);
        text_free(&text);
    }
}

Test(spec, refuses_more_than_a_mebibyte) {
    struct text text = {0};
    struct diag diag = {0};
    repeat(&text, "#", YAML_BYTES + 1);
    cr_assert_null(read_text(&text, &diag));
    cr_assert_str_eq(text_string(&diag.text), "spec: error: a spec has at most 1048576 bytes, this one has 1048577\n");
    diag_free(&diag);
    text_free(&text);
}

Test(spec, takes_the_longest_value_and_refuses_one_byte_more) {
    for (int more = 0; more < 2; more++) {
        struct text text = {0};
        struct diag diag = {0};
        text_print(&text, "family: softmax\nabout: ");
        repeat(&text, "x", text.size + YAML_SCALAR + (size_t)more);
        struct spec *spec = read_text(&text, &diag);
        cr_assert_eq(spec == NULL, more == 1);
        spec_free(spec);
        diag_free(&diag);
        text_free(&text);
    }
}

Test(spec, takes_the_most_shapes_and_refuses_one_more) {
    for (int more = 0; more < 2; more++) {
        struct text text = {0};
        struct diag diag = {0};
        text_print(&text, "family: softmax\ntest:\n  shapes:\n");
        for (int i = 0; i < SPEC_SHAPES + more; i++)
            text_print(&text, "    - {rows: %d, cols: 1}\n", i);
        struct spec *spec = read_text(&text, &diag);
        cr_assert_eq(spec == NULL, more == 1);
        if (spec)
            cr_assert_eq(spec->shape[SPEC_SHAPES - 1].rows, SPEC_SHAPES - 1);
        spec_free(spec);
        diag_free(&diag);
        text_free(&text);
    }
}

Test(spec, takes_no_more_keys_in_a_map_than_it_can_compare) {
    struct text text = {0};
    struct diag diag = {0};
    text_print(&text, "family: softmax\nproblem: {");
    for (int i = 0; i <= YAML_KEYS; i++)
        text_print(&text, "k%d: 1, ", i);
    text_print(&text, "}\n");
    cr_assert_null(read_text(&text, &diag));
    cr_assert_not_null(strstr(text_string(&diag.text), "too many keys in one map"));
    diag_free(&diag);
    text_free(&text);
}

Test(spec, shows_twenty_errors_and_stops) {
    struct text text = {0};
    struct diag diag = {0};
    text_print(&text, "family: softmax\n");
    for (int i = 0; i < 60; i++)
        text_print(&text, "unknown%d: 1\n", i);
    cr_assert_null(read_text(&text, &diag));
    cr_assert_eq(diag.errors, DIAG_LIMIT);
    diag_free(&diag);
    text_free(&text);
}

Test(spec, adds_to_errors_that_were_there_before) {
    struct diag diag = {.errors = 1};
    struct spec *spec = spec_read("spec", "family: softmax", 15, &diag);
    cr_assert_not_null(spec);
    cr_assert_eq(diag.errors, 1);
    spec_free(spec);
}

/* Every prefix of a good spec is read or refused. Under the sanitizers, this also shows that nothing leaks. */
Test(spec, reads_or_refuses_every_prefix_and_every_changed_byte) {
    static const char text[] = "family: attention_forward\nproblem: {head_dim: [64, 96], mask: 'causal'}\n"
                               "require:\n  - block_m > 16 # here\ntest:\n  shapes: [{len_q: 3, len_kv: 4}]\n"
                               "  inputs: {q: q, k: k, v: v}\n";
    char changed[sizeof text];
    for (size_t size = 0; size <= strlen(text); size++) {
        struct diag diag = {0};
        struct spec *spec = spec_read("spec", text, size, &diag);
        cr_assert_eq(spec == NULL, diag.errors > 0, "prefix of %zu bytes", size);
        spec_free(spec);
        diag_free(&diag);
    }
    for (size_t at = 0; at < strlen(text); at++)
        for (const char *byte = "\n\t:[]{}'\"&*#-,0\xff"; *byte; byte++) {
            struct diag diag = {0};
            memcpy(changed, text, sizeof text);
            changed[at] = *byte;
            struct spec *spec = spec_read("spec", changed, strlen(text), &diag);
            cr_assert_eq(spec == NULL, diag.errors > 0, "byte %zu", at);
            spec_free(spec);
            diag_free(&diag);
        }
}
