#include "options.h"

#include <criterion/criterion.h>
#include <string.h>

static const struct option table[] = {
    {"out", 'o', OPTION_TEXT, "FILE",
     "where to write the result of all this, which is a sentence long enough to be wrapped"},
    {"seed", 0, OPTION_NUMBER, "N", "a number"},
    {"color", 'c', OPTION_WORD, "auto|always|never", "colours"},
    {"quiet", 'q', OPTION_FLAG, NULL, "say little"},
    {"verbose", 'v', OPTION_FLAG, NULL, "say much"},
    {NULL, 0, OPTION_FLAG, NULL, NULL},
};

enum { WORDS = 6 };

static int count(const char *const *words) {
    int n = 0;
    while (n < WORDS && words[n])
        n++;
    return n;
}

Test(options, every_form_of_an_option_is_read) {
    static const char *const lines[][WORDS] = {
        {"--out", "a", "--seed", "7", "-q", "-cnever"},
        {"--out=a", "--seed=7", "--quiet", "--color", "never"},
        {"-oa", "--seed", "7", "-qc", "never"},
        {"-qoa", "--seed", "1", "--seed", "7", "--color=never"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct options options;
        struct text error = {0};
        cr_assert(options_parse(table, count(lines[i]), lines[i], &options, &error), "%zu: %s", i, text_string(&error));
        cr_assert_str_eq(options_get(&options, "out")->text, "a");
        cr_assert_eq(options_get(&options, "seed")->number, 7);
        cr_assert_eq(options_get(&options, "color")->number, 2);
        cr_assert(options_get(&options, "quiet")->given);
        cr_assert_not(options_get(&options, "verbose")->given);
        cr_assert_eq(options.arguments, 0);
    }
}

Test(options, arguments_stand_anywhere_and_two_dashes_end_options) {
    static const char *const line[WORDS] = {"spec", "-q", "-", "--", "--seed", "-x"};
    struct options options;
    struct text error = {0};
    cr_assert(options_parse(table, WORDS, line, &options, &error));
    cr_assert_eq(options.arguments, 4);
    cr_assert_str_eq(options.argument[0], "spec");
    cr_assert_str_eq(options.argument[1], "-");
    cr_assert_str_eq(options.argument[2], "--seed");
    cr_assert_str_eq(options.argument[3], "-x");
}

Test(options, mistakes_say_what_was_expected_and_found) {
    static const struct {
        const char *line[WORDS];
        const char *reason;
    } cases[] = {
        {{"--sed", "3"}, "unknown option '--sed'; did you mean '--seed'?"},
        {{"--nothing_like_it"}, "unknown option '--nothing_like_it'"},
        {{"-z"}, "unknown option '-z'"},
        {{"-qz"}, "unknown option '-z'"},
        {{"--seed"}, "--seed expects N after it"},
        {{"--seed", "x"}, "--seed expects a whole number, found 'x'"},
        {{"--seed", "-1"}, "--seed expects a whole number, found '-1'"},
        {{"--seed", "7 "}, "found '7 '"},
        {{"--seed", ""}, "found ''"},
        {{"--seed", "9223372036854775808"}, "found '9223372036854775808'"},
        {{"--color", "neve"}, "--color expects auto|always|never, found 'neve'"},
        {{"--color="}, "found ''"},
        {{"--quiet=yes"}, "--quiet takes no value, found 'yes'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct options options;
        struct text error = {0};
        cr_assert_not(options_parse(table, count(cases[i].line), cases[i].line, &options, &error), "case %zu", i);
        cr_assert(strstr(text_string(&error), cases[i].reason), "case %zu says: %s", i, text_string(&error));
        text_free(&error);
    }
}

Test(options, too_many_arguments_are_refused) {
    const char *line[ARGUMENTS + 1];
    for (int i = 0; i <= ARGUMENTS; i++)
        line[i] = "x";
    struct options options;
    struct text error = {0};
    cr_assert_not(options_parse(table, ARGUMENTS + 1, line, &options, &error));
    text_free(&error);
}

Test(options, help_names_every_option_in_aligned_lines_of_80_columns) {
    struct text text = {0};
    options_help(table, &text);
    for (const struct option *option = table; option->name; option++)
        cr_assert(strstr(text_string(&text), option->name));
    for (const char *at = text_string(&text); *at; at += strcspn(at, "\n") + 1)
        cr_assert_leq(strcspn(at, "\n"), 80);
    cr_assert(strstr(text_string(&text), "  -o, --out FILE          where"));
    text_free(&text);
}

Test(options, an_option_that_does_nothing_is_refused) {
    static const struct option_rule rules[] = {{"run", "seed", "out|color", NULL},
                                               {"run", "verbose", NULL, "quiet"},
                                               {"list", "out", "seed", NULL},
                                               {NULL, NULL, NULL, NULL}};
    static const struct {
        const char *line[WORDS];
        const char *reason; /* null = accepted */
    } cases[] = {
        {{"--seed", "3"}, "--seed does nothing without --out or --color"},
        {{"--seed", "3", "-oa"}, NULL},
        {{"--seed", "3", "-cauto"}, NULL},
        {{"-v", "-q"}, "--verbose does nothing with --quiet; leave one of them out"},
        {{"-v"}, NULL},
        {{"--out", "x"}, NULL}, /* the rule belongs to another verb */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct options options;
        struct text error = {0};
        cr_assert(options_parse(table, count(cases[i].line), cases[i].line, &options, &error));
        cr_expect_eq(options_check(&options, "run", rules, &error), !cases[i].reason, "case %zu", i);
        cr_expect_str_eq(text_string(&error), cases[i].reason ? cases[i].reason : "");
        text_free(&error);
    }
}
