#include "gen.h"
#include "helper_cases.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

Test(reference, is_what_specs_readme_says) {
    struct text text = {0}, file;
    spec_reference(&text);
    if (cases_updating())
        cr_assert(file_write("specs/README.md", &text));
    cr_assert(file_read("specs/README.md", &file));
    cr_assert_str_eq(text_string(&text), text_string(&file), "ATTILE_UPDATE_GOLDEN=1 renews specs/README.md");
    text_free(&text);
    text_free(&file);
}

Test(reference, has_every_knob_word_and_size) {
    struct text text = {0};
    spec_reference(&text);
    const char *knobs = strstr(text_string(&text), "## Family and target");
    cr_assert_not_null(knobs);
    for (int id = 0; id < KNOB_COUNT; id++) {
        char row[128];
        snprintf(row, sizeof row, "\n| `%s` | ", knob_table[id].name);
        const char *found = strstr(knobs, row);
        cr_assert_not_null(found, "%s", row);
        bool formula = knob_table[id].kind == KNOB_KIND_FORMULA; /* its last word cannot be written */
        for (int i = 0; knob_table[id].words && knob_table[id].words[i + formula]; i++) {
            char word[128];
            snprintf(word, sizeof word, "`%s`", knob_table[id].words[i]);
            const char *at = strstr(found, word);
            cr_assert(at && at < strchr(found + 1, '\n'), "%s in %s", word, row);
        }
    }
    for (int id = 0; id < SHAPE_COUNT; id++) {
        char row[128];
        bool asked = shape_table[id].families != SHAPE_OF_DEVICE; /* what the device reports is not part of a spec */
        snprintf(row, sizeof row, "\n| `%s` | ", shape_table[id].name);
        cr_assert_eq(strstr(text_string(&text), row) != NULL, asked, "%s", row);
    }
    text_free(&text);
}

/* Newcomers copy the example at the top of the page. */
Test(reference, has_an_example_that_works) {
    struct text text = {0};
    struct diag diag = {0};
    spec_reference(&text);
    const char *start = strstr(text_string(&text), "```yaml\n"), *end = start ? strstr(start, "\n```\n") : NULL;
    cr_assert(start && end);
    start += strlen("```yaml\n");
    struct spec *spec = spec_read("example", start, (size_t)(end + 1 - start), &diag);
    cr_assert_not_null(spec, "%s", text_string(&diag.text));
    cr_assert_eq(spec->shapes, 1);
    cr_assert_eq(spec->requires, 1);
    spec_free(spec);
    text_free(&text);
}

Test(reference, has_tables_with_equal_columns) {
    struct text text = {0};
    spec_reference(&text);
    int columns = 0;
    for (const char *line = text_string(&text); *line; line = strchr(line, '\n') + 1) {
        int bars = 0;
        for (const char *c = line; *c != '\n'; c++)
            bars += *c == '|';
        if (*line == '|' && columns > 0)
            cr_assert_eq(bars, columns, "%.80s", line);
        columns = *line == '|' ? bars : 0;
    }
    text_free(&text);
}
