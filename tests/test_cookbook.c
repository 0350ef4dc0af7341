#include "helper_cases.h"
#include "helper_formula.h"

#include <criterion/criterion.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>

/* specs/cookbook is the cookbook of docs/expressions.md. Checks that both say the same, and that every formula in it is
   valid. The sweep checks that the kernels are right. */

/* Finds the lines of a spec from `params:` or `problem:` to the last formula, as the documentation shows them. */
static bool find_recipe(const char *spec, struct text *recipe) {
    const char *begin = strstr(spec, "\nparams:"), *end = strstr(spec, "\n  head_dim:");
    if (!begin)
        begin = strstr(spec, "\nproblem:");
    if (!begin || !end || end < begin)
        return false;
    text_append(recipe, begin + 1, (size_t)(end - begin));
    return true;
}

static void declare_line(struct formula_scope *scope, char *line, struct diag *diag) {
    char *colon = strchr(line, ':');
    cr_assert(colon, "%s", line);
    *colon = '\0';
    formula_declare(scope, (struct place){0}, line, (struct place){0}, colon + 2, diag);
}

/* Returns the number of formulas. */
static int check_recipe(const char *path, const char *recipe) {
    struct formula_scope scope = {0};
    struct diag diag = {0};
    char line[512];
    int count = 0;
    bool params = false;
    for (const char *at = recipe; *at; at += strcspn(at, "\n") + 1) {
        snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
        bool mask = strncmp(line, "  mask: ", 8) == 0, score = strncmp(line, "  score: ", 9) == 0;
        if (line[0] != ' ') {
            params = strcmp(line, "params:") == 0;
        } else if (params) {
            declare_line(&scope, line + 2, &diag);
        } else if (mask || score) {
            const char *text = strchr(line, ':') + 2;
            struct input input = {path, text, strlen(text)};
            struct formula *formula = formula_parse(mask ? FORMULA_MASK : FORMULA_SCORE, (struct place){&input, 1, 1},
                                                    text, strlen(text), &scope, &diag);
            count += formula != NULL;
            formula_free(formula);
        }
    }
    cr_expect_eq(diag.errors, 0, "%s:\n%s", path, text_string(&diag.text));
    diag_free(&diag);
    formula_scope_free(&scope);
    return count;
}

Test(cookbook, every_recipe_is_a_spec_and_in_the_documentation) {
    struct text docs;
    glob_t found;
    cr_assert(file_read("docs/expressions.md", &docs));
    cr_assert_eq(glob(SOURCE_DIR "/specs/cookbook/*.yaml", 0, NULL, &found), 0);
    cr_assert_geq(found.gl_pathc, 20);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct text spec, recipe = {0};
        const char *path = found.gl_pathv[i] + strlen(SOURCE_DIR) + 1;
        cr_assert(file_read(path, &spec));
        cr_assert(find_recipe(text_string(&spec), &recipe), "%s", path);
        cr_expect(strstr(text_string(&docs), text_string(&recipe)), "%s is not in docs/expressions.md as it is:\n%s",
                  path, text_string(&recipe));
        cr_expect(strstr(text_string(&docs), path), "%s", path);
        cr_expect_geq(check_recipe(path, text_string(&recipe)), 1, "%s has no formula", path);
        text_free(&recipe);
        text_free(&spec);
    }
    globfree(&found);
    text_free(&docs);
}

/* Tables write | as \|. */
static void escape(const char *text, struct text *out) {
    for (; *text; text++)
        text_print(out, *text == '|' ? "\\|" : "%c", *text);
}

Test(cookbook, the_documentation_has_every_named_mask_and_score) {
    struct text docs;
    cr_assert(file_read("docs/expressions.md", &docs));
    for (int i = 0; i < formula_table_count; i++) {
        const struct formula_entry *entry = &formula_table[i];
        struct text row = {0};
        text_print(&row, entry->params[0] ? "| `%s(%s)` | `" : "| `%s%s` | `", entry->name, entry->params);
        escape(entry->text, &row);
        text_print(&row, "` | %s |", entry->about);
        cr_expect(strstr(text_string(&docs), text_string(&row)), "missing in docs/expressions.md:\n%s",
                  text_string(&row));
        text_free(&row);
    }
    text_free(&docs);
}
