/* Man pages and completions, as `attile help --files` writes them. */
#include "cli.h"
#include "file.h"
#include "helper_command.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void enter(void) {
    folder_enter();
    struct outcome outcome = command_run("", "help --files .");
    cr_assert_eq(outcome.code, 0, "%s", text_string(&outcome.err));
    command_done(&outcome);
}

TestSuite(manual, .init = enter, .fini = folder_leave);

#define BASH "share/bash-completion/completions/attile"
#define ZSH  "share/zsh/site-functions/_attile"
#define FISH "share/fish/vendor_completions.d/attile.fish"

static struct text load(const char *path) {
    struct text content = {0}, error = {0};
    cr_assert(file_load(path, 1 << 20, &content, &error), "%s", text_string(&error));
    return content;
}

/* "host-mode" as "host\\-mode" */
static void escape(const char *name, char *escaped) {
    for (; *name; *escaped++ = *name++)
        if (*name == '-')
            *escaped++ = '\\';
    *escaped = '\0';
}

Test(manual, every_verb_has_a_page_that_names_its_options) {
    struct text overview = load("share/man/man1/attile.1");
    for (const struct verb *verb = verbs; verb->name; verb++) {
        char path[128], words[160], escaped[64];
        snprintf(words, sizeof words, "\\fB%s\\fR", verb->name);
        cr_expect(strstr(text_string(&overview), words), "attile.1 lacks %s", verb->name);
        snprintf(path, sizeof path, "share/man/man1/attile-%s.1", verb->name);
        if (strchr(path, ' '))
            *strchr(path, ' ') = '-';
        struct text page = load(path);
        for (const struct option *option = verb->options; option->name; option++) {
            escape(option->name, escaped);
            snprintf(words, sizeof words, "\\fB\\-\\-%s\\fR", escaped);
            cr_expect(strstr(text_string(&page), words), "%s lacks --%s", path, option->name);
        }
        text_free(&page);
    }
    text_free(&overview);
}

/* True if the lines of a script for a verb, which start at `begin`, name the option. */
static bool names(const struct text *script, const char *begin, const char *end, const char *option) {
    const char *at = strstr(text_string(script), begin), *found = at ? strstr(at, option) : NULL;
    const char *stop = at ? strstr(at, end) : NULL;
    return found && stop && found < stop;
}

Test(manual, every_shell_is_told_every_verb_and_option) {
    struct text bash = load(BASH), zsh = load(ZSH), fish = load(FISH);
    for (const struct verb *verb = verbs; verb->name; verb++)
        for (const struct option *option = verb->options; option->name; option++) {
            char begin[64], words[128];
            snprintf(begin, sizeof begin, "\"%s -\"*)", verb->name);
            snprintf(words, sizeof words, "--%s ", option->name);
            cr_expect(names(&bash, begin, ";;", words), "bash: %s --%s", verb->name, option->name);
            snprintf(begin, sizeof begin, "('%s')", verb->name);
            snprintf(words, sizeof words, "'--%s%s[", option->name, option->value ? "=" : "");
            cr_expect(names(&zsh, begin, ";;", words), "zsh: %s --%s", verb->name, option->name);
            snprintf(words, sizeof words, "'__attile_verb %s' -l %s ", verb->name, option->name);
            cr_expect(strstr(text_string(&fish), words), "fish: %s --%s", verb->name, option->name);
        }
    text_free(&bash), text_free(&zsh), text_free(&fish);
}

Test(manual, bash_completes_verbs_options_and_words) {
    static const struct {
        const char *words; /* the last one is completed */
        const char *completions;
    } cases[] = {
        {"exp", "explain explore"},
        {"cache tr", "trim"},
        {"run SPEC --dev", "--device"},
        {"cache trim --dr", "--dry-run"},
        {"run --device h", "host"},
        {"tune -d c", "cuda"},
        {"run spe", ""}, /* then bash offers files */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct text command = {0};
        text_print(&command,
                   "bash -c 'source " BASH "; COMP_WORDS=(attile %s); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); "
                   "_attile; printf \"%%s\" \"${COMPREPLY[*]}\"' > .out",
                   cases[i].words);
        cr_assert_eq(system(text_string(&command)), 0);
        struct text out = load(".out");
        cr_expect_str_eq(text_string(&out), cases[i].completions, "attile %s: %s", cases[i].words, text_string(&out));
        text_free(&out), text_free(&command);
    }
}

Test(manual, fish_completes_them_too_where_it_is) {
    static const char *const cases[][2] = {{"attile exp", "explore"},
                                           {"attile cache tr", "trim"},
                                           {"attile cache trim --dr", "--dry-run"},
                                           {"attile run --dev", "--device"},
                                           {"attile run --device h", "host"}};
    if (system("command -v fish >/dev/null") != 0)
        cr_skip_test("no fish");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char command[256];
        snprintf(command, sizeof command,
                 "HOME=. fish -c \"source " FISH "; complete -C '%s'\" 2>&1 | grep -q -e '^%s'", cases[i][0],
                 cases[i][1]);
        cr_expect_eq(system(command), 0, "%s", cases[i][0]);
    }
}

Test(manual, shells_that_are_here_can_read_their_scripts) {
    static const char *const shells[][2] = {{"bash", BASH}, {"zsh", ZSH}, {"fish", FISH}};
    for (int i = 0; i < 3; i++) {
        char command[256];
        snprintf(command, sizeof command, "! command -v %s >/dev/null || %s -n %s", shells[i][0], shells[i][0],
                 shells[i][1]);
        cr_expect_eq(system(command), 0, "%s", shells[i][0]);
    }
}
