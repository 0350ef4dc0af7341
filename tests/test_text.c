#include "text.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

Test(text, an_empty_buffer_reads_as_an_empty_string) {
    struct text text = {0};
    cr_assert_str_eq(text_string(&text), "");
    text_append(&text, "", 0);
    cr_assert_str_eq(text_string(&text), "");
    text_free(&text);
}

Test(text, appends_and_prints_in_order) {
    struct text text = {0};
    text_append(&text, "abc", 3);
    text_print(&text, "%s-%d", "x", 7);
    text_append(&text, "!", 1);
    cr_assert_str_eq(text_string(&text), "abcx-7!");
    cr_assert_eq(text.size, 7);
    text_free(&text);
}

Test(text, keeps_zero_bytes) {
    struct text text = {0};
    text_append(&text, "a\0b", 3);
    cr_assert_eq(text.size, 3);
    cr_assert_arr_eq(text.bytes, "a\0b\0", 4); /* and one at the end */
    text_free(&text);
}

Test(text, grows_past_any_first_guess) {
    struct text text = {0};
    for (int i = 0; i < 100000; i++)
        text_print(&text, "%06d\n", i);
    cr_assert_eq(text.size, 700000);
    cr_assert_arr_eq(text.bytes + 7 * 54321, "054321\n", 7);
    text_free(&text);
    cr_assert_null(text.bytes);
}

/* However much room is left, printing ends where it should. */
Test(text, prints_lines_of_every_length) {
    char line[400];
    for (size_t before = 0; before < 300; before++)
        for (size_t length = 0; length < 300; length += 7) {
            struct text text = {0};
            memset(line, '.', sizeof line);
            text_append(&text, line, before);
            memset(line, 'x', length);
            text_print(&text, "%.*s", (int)length, line);
            cr_assert_eq(text.size, before + length);
            cr_assert_eq(strspn(text.bytes, "."), before);
            cr_assert_eq(strspn(text.bytes + before, "x"), length);
            cr_assert_eq(text.bytes[text.size], '\0');
            text_free(&text);
        }
}

Test(text, a_size_beyond_memory_fails_and_stays_failed) {
    struct text text = {0};
    text_append(&text, "abc", 3);
    text_append(&text, "abc", SIZE_MAX - 2); /* wraps around if sizes are added carelessly */
    cr_assert(text.failed);
    text_append(&text, "def", 3);
    text_print(&text, "%d", 1);
    cr_assert_str_eq(text_string(&text), "abc");
    text_free(&text);
    cr_assert_not(text.failed);
}

Test(text, bytes_equal_a_word_only_as_a_whole) {
    static const struct {
        const char *bytes;
        size_t size;
        const char *word;
        bool equal;
    } cases[] = {
        {"head", 4, "head", true},    {"header", 4, "head", true}, {"head", 3, "head", false},
        {"head", 4, "header", false}, {"", 0, "", true},           {"", 0, "a", false},
        {"a", 1, "", false},          {"\0", 1, "", false},        {"a\0b", 3, "a", false},
        {"Head", 4, "head", false},   {"heat", 4, "head", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect_eq(text_equals(cases[i].bytes, cases[i].size, cases[i].word), cases[i].equal, "case %zu", i);
}

/* There is always room for the terminating zero byte, whatever the size. */
Test(text, always_has_room_for_its_end) {
    static const char bytes[600];
    for (size_t first = 0; first < 300; first++)
        for (size_t second = 0; second < 300; second += 37) {
            struct text text = {0};
            text_append(&text, bytes, first);
            text_append(&text, bytes, second);
            cr_assert_gt(text.room, first + second, "%zu bytes and %zu", first, second);
            text_free(&text);
        }
}
