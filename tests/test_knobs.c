#include "gen.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <string.h>

Test(knobs, every_row_is_found_by_its_name_and_by_no_other) {
    for (int id = 0; id < KNOB_COUNT; id++) {
        const char *name = knob_table[id].name;
        cr_expect_eq(knob_find(name, strlen(name)), id);
        cr_expect_neq(knob_find(name, strlen(name) - 1), id);
    }
    cr_expect_eq(knob_find("BLOCK_M", 7), -1);
    cr_expect_eq(knob_find("", 0), -1);
}

Test(knobs, words_are_numbered_as_the_enums_say) {
    cr_expect_eq(knob_word(KNOB_mask, "causal", 6), mask_causal);
    cr_expect_eq(knob_word(KNOB_algorithm, "flash", 5), algorithm_flash);
    cr_expect_eq(knob_word(KNOB_algorithm, "flash_tiled", 11), algorithm_flash_tiled);
    cr_expect_eq(knob_word(KNOB_mask, "casual", 6), -1);
    cr_expect_eq(knob_word(KNOB_block_m, "64", 2), -1);
    cr_expect_str_eq(knob_word_name(KNOB_mask, mask_causal), "causal");
    cr_expect_str_eq(knob_word_name(KNOB_mask, AUTO), "auto");
    cr_expect_str_eq(knob_word_name(KNOB_mask, 99), "?");
    cr_expect_str_eq(knob_word_name(KNOB_mask, -7), "?");
}

Test(knobs, defaults_are_allowed_values) {
    struct knobs knobs = knobs_default();
    for (int id = 0; id < KNOB_COUNT; id++) {
        int value = knob_get(&knobs, id);
        const struct knob_info *info = &knob_table[id];
        if (value == AUTO)
            continue;
        if (info->kind == KNOB_KIND_INT)
            cr_expect(value >= info->least && value <= info->most, "%s", info->name);
        else
            cr_expect_neq(knob_word_name(id, value)[0], '?', "%s", info->name);
    }
    cr_expect_eq(knobs.dtype, dtype_fp32);
    cr_expect_eq(knobs.block_m, AUTO);
}

/* Kernel names join words and prefixed numbers, so no two knobs may look alike in one. */
Test(knobs, names_can_be_told_apart) {
    for (int a = 0; a < KNOB_COUNT; a++)
        for (int b = a + 1; b < KNOB_COUNT; b++) {
            const struct knob_info *x = &knob_table[a], *y = &knob_table[b];
            cr_expect_str_neq(x->name, y->name);
            if (x->kind == KNOB_KIND_INT && y->kind == KNOB_KIND_INT)
                cr_expect_str_neq(x->prefix, y->prefix, "%s and %s", x->name, y->name);
            for (int i = 0; x->words && x->words[i]; i++)
                for (int j = 0; y->words && y->words[j]; j++)
                    if (strcmp(x->prefix, y->prefix) == 0)
                        cr_expect_str_neq(x->words[i], y->words[j], "%s and %s", x->name, y->name);
        }
}

Test(knobs, names_and_words_are_identifiers) {
    for (int id = 0; id < KNOB_COUNT; id++) {
        cr_expect_lt(strlen(knob_table[id].name), 48);
        for (const char *c = knob_table[id].name; *c; c++)
            cr_expect(islower((unsigned char)*c) || *c == '_', "%s", knob_table[id].name);
        cr_expect_gt(strlen(knob_table[id].about), 0);
    }
}

/* Anything that holds a set of knobs has room for twice as many. */
Test(knobs, sets_have_room_for_twice_as_many) {
    enum { LAST = 127 };
    struct variant variant = {.used = KNOB_FLAG(LAST)};
    struct variants variants = {.used = variant.used, .used_by_any = variant.used};
    cr_expect_leq(2 * KNOB_COUNT, LAST + 1);
    cr_expect(knob_in(variant.used, LAST) && knob_in(variants.used, LAST) && knob_in(variants.used_by_any, LAST));
    cr_expect_not(knob_in(variant.used, LAST - 64));
}
