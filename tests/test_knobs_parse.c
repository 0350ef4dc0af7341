#include "gen.h"
#include "helper_cases.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { PROBLEM = 1 << KNOB_GROUP_PROBLEM, SCHEDULE = 1 << KNOB_GROUP_SCHEDULE, ALL = 7 };

static bool parse(const char *text, unsigned groups, struct knobs *knobs, struct diag *diag) {
    struct input input = {"<problem>", text, strlen(text)};
    return knobs_parse(&input, groups, knobs, diag);
}

/* Prints every knob that differs from its default, so that a case shows what was set, and that nothing else was. */
static void run_case(const char *title, const char *text, size_t size, struct text *output) {
    struct input input = {"<problem>", text, size};
    struct knobs knobs = knobs_default(), fresh = knobs_default();
    struct diag diag = {0};
    unsigned groups = strstr(title, "(problem knobs only)") ? PROBLEM : ALL;
    bool parsed = knobs_parse(&input, groups, &knobs, &diag);
    text_append(output, text_string(&diag.text), diag.text.size);
    for (int id = 0; id < KNOB_COUNT; id++) {
        int value = knob_get(&knobs, (enum knob_id)id);
        if (value == knob_get(&fresh, (enum knob_id)id))
            continue;
        text_print(output, "%s = ", knob_table[id].name);
        if (knob_table[id].kind == KNOB_KIND_INT)
            text_print(output, "%d\n", value);
        else
            text_print(output, "%s\n", knob_word_name((enum knob_id)id, value));
    }
    cr_assert_eq(parsed, diag.errors == 0, "%s", title);
    diag_free(&diag);
}

Test(knobs_parse, gives_what_the_text_cases_say) {
    int count = 0;
    cr_assert_eq(cases_check("spec/knobs_parse.txt", run_case, &count), 0);
    cr_assert_geq(count, 20);
}

Test(knobs_parse, reads_back_every_value_of_every_word_and_the_ends_of_every_range) {
    for (int id = 0; id < KNOB_COUNT; id++) {
        const struct knob_info *knob = &knob_table[id];
        int values = 2;
        for (values = 0; knob->words && knob->words[values]; values++)
            continue;
        values -= knob->kind == KNOB_KIND_FORMULA; /* the last word only stands for an expression */
        for (int i = 0; i < (knob->words ? values : 2); i++) {
            char text[128];
            int expected = knob->words ? i : i ? knob->most : knob->least;
            if (knob->words)
                snprintf(text, sizeof text, "%s=%s", knob->name, knob->words[i]);
            else
                snprintf(text, sizeof text, "%s: %d", knob->name, expected);
            struct knobs knobs = knobs_default();
            struct diag diag = {0};
            cr_assert(parse(text, ALL, &knobs, &diag), "%s\n%s", text, text_string(&diag.text));
            cr_assert_eq(knob_get(&knobs, (enum knob_id)id), expected, "%s", text);
            diag_free(&diag);
        }
    }
}

Test(knobs_parse, refuses_values_just_outside_every_range) {
    for (int id = 0; id < KNOB_COUNT; id++)
        for (int i = 0; knob_table[id].kind == KNOB_KIND_INT && i < 2; i++) {
            char text[128];
            struct knobs knobs = knobs_default();
            struct diag diag = {0};
            snprintf(text, sizeof text, "%s=%d", knob_table[id].name,
                     i ? knob_table[id].most + 1 : knob_table[id].least - 1);
            cr_assert_not(parse(text, ALL, &knobs, &diag), "%s", text);
            cr_assert_eq(diag.errors, 1);
            diag_free(&diag);
        }
}

Test(knobs_parse, leaves_the_knobs_alone_when_anything_is_wrong) {
    struct knobs knobs = knobs_default(), before = knobs;
    struct diag diag = {0};
    cr_assert_not(parse("head_dim=96 mask=casual block_m=32", ALL, &knobs, &diag));
    cr_assert_eq(memcmp(&knobs, &before, sizeof knobs), 0);
    diag_free(&diag);
}

Test(knobs_parse, keeps_knobs_that_are_not_named) {
    struct knobs knobs = knobs_default();
    struct diag diag = {0};
    knobs.block_n = 48;
    cr_assert(parse("head_dim=96", ALL, &knobs, &diag));
    cr_assert_eq(knobs.block_n, 48);
    cr_assert_eq(knobs.head_dim, 96);
}

Test(knobs_parse, stops_after_the_errors_that_can_be_shown) {
    struct text text = {0};
    struct knobs knobs = knobs_default();
    struct diag diag = {0};
    for (int i = 0; i < 100000; i++)
        text_print(&text, "nonsense%d=1 ", i);
    cr_assert_not(parse(text_string(&text), ALL, &knobs, &diag));
    cr_assert_eq(diag.errors, DIAG_LIMIT);
    diag_free(&diag);
    text_free(&text);
}
