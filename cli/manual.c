#include "manual.h"
#include "file.h"

#include <string.h>

/* --- man pages ---------------------------------------------------------------------------------------------------- */

/* Escapes words for roff: dashes can be copied into a shell, quotes stay plain, and no line becomes a request. */
static void print_words(struct text *page, const char *words, size_t size) {
    static const struct {
        char plain;
        const char *roff;
    } escapes[] = {{'-', "\\-"}, {'\\', "\\e"}, {'\'', "\\(aq"}, {'`', "\\(ga"}};
    text_print(page, "%s", size > 0 && words[0] == '.' ? "\\&" : "");
    for (size_t i = 0; i < size; i++) {
        const char *roff = NULL;
        for (size_t k = 0; k < sizeof escapes / sizeof *escapes; k++)
            roff = words[i] == escapes[k].plain ? escapes[k].roff : roff;
        text_print(page, roff ? "%s" : "%.1s", roff ? roff : words + i);
    }
}

static void print_all(struct text *page, const char *words) { print_words(page, words, strlen(words)); }

/* Lines that begin with a blank stay unchanged, as in attile help. */
static void print_lines(struct text *page, const char *lines) {
    bool fixed = false;
    for (const char *line = lines; *line;) {
        size_t size = strcspn(line, "\n");
        if (size > 0 && fixed != (*line == ' ')) {
            fixed = !fixed;
            text_print(page, fixed ? ".nf\n" : ".fi\n");
        }
        if (size > 0)
            print_words(page, line, size);
        text_print(page, size > 0 ? "\n" : ".PP\n");
        line += size + (line[size] == '\n');
    }
    text_print(page, fixed ? ".fi\n" : "");
}

static void print_title(struct text *page, const char *verb, const char *about) {
    struct text name = {0};
    text_print(&name, "attile%s%s", verb ? "-" : "", verb ? verb : "");
    for (char *at = name.bytes; at && *at; at++)
        *at = *at == ' ' ? '-' : *at;
    text_print(page, ".TH ");
    print_all(page, text_string(&name));
    text_print(page, " 1 \"\" \"attile %s\" \"Attile\"\n.SH NAME\n", att_version());
    print_all(page, text_string(&name));
    text_print(page, " \\- ");
    print_all(page, about);
    text_print(page, "\n.SH SYNOPSIS\n.B attile%s%s\n", verb ? " " : "", verb ? verb : "");
    text_free(&name);
}

void manual_verb(const struct verb *verb, struct text *page) {
    print_title(page, verb->name, verb->about);
    text_print(page, "[options] ");
    print_all(page, verb->arguments);
    text_print(page, "\n");
    if (verb->details) {
        text_print(page, ".SH DESCRIPTION\n");
        print_lines(page, verb->details);
    }
    text_print(page, ".SH OPTIONS\n");
    for (const struct option *option = verb->options; option->name; option++) {
        text_print(page, option->letter ? ".TP\n\\fB\\-%c\\fR, \\fB\\-\\-" : ".TP\n\\fB\\-\\-", option->letter);
        print_all(page, option->name);
        text_print(page, "\\fR%s", option->value ? " \\fI" : "");
        print_all(page, option->value ? option->value : "");
        text_print(page, "%s\n", option->value ? "\\fR" : "");
        print_all(page, option->about);
        text_print(page, "\n");
    }
    text_print(page, ".SH SEE ALSO\n.BR attile (1)\n");
}

void manual_overview(struct text *page) {
    print_title(page, NULL, help_about);
    text_print(page, "VERB [options] [arguments]\n.SH DESCRIPTION\n");
    print_lines(page, help_specs);
    text_print(page, ".SH VERBS\n");
    for (const struct verb *verb = verbs; verb->name; verb++) {
        text_print(page, ".TP\n\\fB%s\\fR %s\n", verb->name, verb->arguments);
        print_all(page, verb->about);
        text_print(page, "\n");
    }
    text_print(page, ".SH EXIT STATUS\n");
    print_lines(page, help_exit_codes);
    text_print(page, ".SH ENVIRONMENT\n");
    print_lines(page, help_environment);
}

/* --- files -------------------------------------------------------------------------------------------------------- */

static enum exit_code save(const struct cli *cli, const char *folder, const char *place, const char *name,
                           struct text *content) {
    struct text path = {0}, error = {0};
    enum exit_code code = CLI_OK;
    text_print(&path, "%s/share/%s", folder, place);
    bool made = file_make_folder(text_string(&path), &error);
    text_print(&path, "/%s", name);
    if (content->failed || path.failed)
        code = cli_error(cli, CLI_INTERNAL, "out of memory");
    else if (!made || !file_save(text_string(&path), content->bytes, content->size, NULL, &error))
        code = cli_error(cli, CLI_IO, "%s", text_string(&error));
    text_free(&path);
    text_free(&error);
    text_free(content);
    return code;
}

enum exit_code manual_save(const struct cli *cli, const char *folder) {
    static const struct {
        void (*print)(struct text *content);
        const char *place, *name;
    } files[] = {
        {manual_overview, "man/man1", "attile.1"},
        {completion_bash, "bash-completion/completions", "attile"},
        {completion_zsh, "zsh/site-functions", "_attile"},
        {completion_fish, "fish/vendor_completions.d", "attile.fish"},
    };
    enum exit_code code = CLI_OK;
    struct text content = {0};
    for (size_t i = 0; !code && i < sizeof files / sizeof *files; i++) {
        files[i].print(&content);
        code = save(cli, folder, files[i].place, files[i].name, &content);
    }
    for (const struct verb *verb = verbs; !code && verb->name; verb++) {
        struct text name = {0};
        text_print(&name, "attile-%s.1", verb->name);
        for (char *at = name.bytes; at && *at; at++)
            *at = *at == ' ' ? '-' : *at;
        manual_verb(verb, &content);
        code = save(cli, folder, "man/man1", text_string(&name), &content);
        text_free(&name);
    }
    return code;
}
