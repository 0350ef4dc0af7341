#include "diag.h"

#include <criterion/criterion.h>
#include <string.h>

static const char three_lines[] = "first line\n\tsecond: valeu\nlast";
static const struct input input = {"spec.yaml", three_lines, sizeof three_lines - 1};

static void expect_text(struct diag *diag, const char *expected) {
    cr_assert_str_eq(text_string(&diag->text), expected, "got:\n%s", text_string(&diag->text));
    diag_free(diag);
}

Test(diag, shows_place_sentence_line_and_caret) {
    struct diag diag = {0};
    diag_error(&diag, (struct place){&input, 2, 10}, "unknown key '%s'", "valeu");
    cr_assert_eq(diag.errors, 1);
    expect_text(&diag, "spec.yaml:2:10: error: unknown key 'valeu'\n"
                       "    2 |      second: valeu\n"
                       "      |              ^\n");
}

Test(diag, an_error_of_the_whole_input_or_of_none_has_no_caret) {
    struct diag diag = {0};
    diag_error(&diag, (struct place){&input, 0, 0}, "too large");
    diag_error(&diag, (struct place){0}, "out of memory");
    expect_text(&diag, "spec.yaml: error: too large\nerror: out of memory\n");
}

Test(diag, a_place_behind_the_end_points_at_the_end) {
    struct diag diag = {0};
    diag_error(&diag, (struct place){&input, 3, 5}, "something is missing");
    diag_error(&diag, (struct place){&input, 9, 1}, "far away");
    expect_text(&diag, "spec.yaml:3:5: error: something is missing\n    3 |     last\n      |         ^\n"
                       "spec.yaml:9:1: error: far away\n    9 |     \n      |     ^\n");
}

Test(diag, the_caret_counts_characters_where_places_count_bytes) {
    struct input utf8 = {"s", "\xc3\xbc\xe2\x82\xac x", 7};
    struct diag diag = {0};
    diag_error(&diag, (struct place){&utf8, 1, 7}, "here");
    expect_text(&diag, "s:1:7: error: here\n    1 |     \xc3\xbc\xe2\x82\xac x\n      |        ^\n");
}

Test(diag, control_characters_are_not_passed_on) {
    struct input bytes = {"s", "a\x1b[31m\0b", 8};
    struct diag diag = {0};
    diag_error(&diag, (struct place){&bytes, 1, 2}, "here");
    cr_assert_null(memchr(diag.text.bytes, 0x1b, diag.text.size));
    cr_assert_eq(strlen(diag.text.bytes), diag.text.size);
    diag_free(&diag);
}

Test(diag, a_very_long_line_is_cut_around_the_caret) {
    static char line[100000];
    memset(line, 'a', sizeof line);
    line[50000] = 'X';
    struct input wide = {"s", line, sizeof line};
    struct diag diag = {0};
    diag_error(&diag, (struct place){&wide, 1, 50001}, "here");
    cr_assert_lt(diag.text.size, 600);
    const char *mark = strchr(diag.text.bytes, 'X'), *caret = strchr(diag.text.bytes, '^');
    cr_assert(mark && caret);
    cr_assert_eq((size_t)(mark - strstr(diag.text.bytes, "    1 |")),
                 (size_t)(caret - strstr(diag.text.bytes, "      |")));
    diag_free(&diag);
}

Test(diag, twenty_errors_are_shown_and_all_are_counted) {
    struct diag diag = {0};
    for (int i = 0; i < 30; i++) {
        diag_error(&diag, (struct place){0}, "number %d.", i);
        diag_note(&diag, (struct place){0}, "note %d.", i);
    }
    cr_assert_eq(diag.errors, 30);
    cr_assert_not_null(strstr(diag.text.bytes, "number 19."));
    cr_assert_not_null(strstr(diag.text.bytes, "note 19."));
    cr_assert_null(strstr(diag.text.bytes, "number 20."));
    cr_assert_null(strstr(diag.text.bytes, "note 20."));
    diag_free(&diag);
    cr_assert_eq(diag.errors, 0);
}

static const char *next_word(void *context) {
    static const char *const words[] = {"block_m", "block_n", "threads", "mask", "d", "fp16", "device", NULL};
    int *i = context;
    return words[(*i)++];
}

Test(diag, the_nearest_word_is_one_slip_away_and_not_just_any) {
    static const struct {
        const char *word, *nearest;
    } cases[] = {
        {"blok_m", "block_m"},
        {"bolck_n", "block_n"},
        {"thread", "threads"},
        {"maks", "mask"},
        {"msk", "mask"},
        {"threadsss", "threads"},
        {"dev", "device"},
        {"bloc", NULL}, /* two names begin like this */
        {"float16", "fp16"},
        {"float32", NULL}, /* fp32 is not a candidate here */
        {"xyz", NULL},
        {"", NULL},
        {"banana", NULL},
        {"x", NULL},
        {"a_word_that_is_longer_than_anything_worth_comparing_with_the_words_of_the_table", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *found = diag_nearest(cases[i].word, strlen(cases[i].word), next_word, &(int){0});
        cr_expect(cases[i].nearest ? found && !strcmp(found, cases[i].nearest) : !found, "%s: found %s", cases[i].word,
                  found ? found : "nothing");
    }
}
