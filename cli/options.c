#include "options.h"
#include "diag.h"
#include "terminal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { HELP_INDENT = 26 };

static const struct option *find_letter(const struct option *table, char letter) {
    for (; table->name; table++)
        if (table->letter && table->letter == letter)
            return table;
    return NULL;
}

static const struct option *find_name(const struct option *table, const char *name, size_t size) {
    for (; table->name; table++)
        if (strlen(table->name) == size && memcmp(table->name, name, size) == 0)
            return table;
    return NULL;
}

static const char *next_name(void *context) {
    const struct option **at = context;
    return (*at)->name ? (*at)++->name : NULL;
}

static bool unknown(const struct option *table, const char *name, size_t size, struct text *error) {
    const char *near = diag_nearest(name, size, next_name, &table);
    text_print(error, "unknown option '--%.*s'", (int)size, name);
    if (near)
        text_print(error, "; did you mean '--%s'?", near);
    return false;
}

int options_word(const char *words, const char *word) {
    size_t size = strlen(word);
    for (int number = 0; words; number++) {
        const char *bar = strchr(words, '|');
        if (size == (bar ? (size_t)(bar - words) : strlen(words)) && memcmp(words, word, size) == 0)
            return number;
        words = bar ? bar + 1 : NULL;
    }
    return -1;
}

static bool read_number(const char *text, int64_t *number) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    *number = value;
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0;
}

static bool set(struct options *options, const struct option *option, const char *text, struct text *error) {
    struct option_value *value = &options->value[option - options->table];
    *value = (struct option_value){.given = true, .text = text};
    if (option->kind == OPTION_NUMBER && !read_number(text, &value->number)) {
        text_print(error, "--%s expects a whole number, found '%s'", option->name, text);
        return false;
    }
    if (option->kind == OPTION_WORD && (value->number = options_word(option->value, text)) < 0) {
        text_print(error, "--%s expects %s, found '%s'", option->name, option->value, text);
        return false;
    }
    return true;
}

/* Sets an option with its argument: attached (after '=' or a letter), else the next word. */
static bool set_with(struct options *options, const struct option *option, const char *attached, int argc,
                     const char *const *argv, int *at, struct text *error) {
    if (option->kind == OPTION_FLAG) {
        if (attached)
            text_print(error, "--%s takes no value, found '%s'", option->name, attached);
        return !attached && set(options, option, NULL, error);
    }
    if (!attached && *at + 1 >= argc) {
        text_print(error, "--%s expects %s after it", option->name, option->value);
        return false;
    }
    return set(options, option, attached ? attached : argv[++*at], error);
}

static bool read_letters(struct options *options, int argc, const char *const *argv, int *at, struct text *error) {
    for (const char *letter = argv[*at] + 1; *letter; letter++) {
        const struct option *option = find_letter(options->table, *letter);
        if (!option) {
            text_print(error, "unknown option '-%c'", *letter);
            return false;
        }
        if (option->kind != OPTION_FLAG)
            return set_with(options, option, letter[1] ? letter + 1 : NULL, argc, argv, at, error);
        if (!set(options, option, NULL, error))
            return false;
    }
    return true;
}

static bool read_name(struct options *options, int argc, const char *const *argv, int *at, struct text *error) {
    const char *name = argv[*at] + 2, *equals = strchr(name, '=');
    size_t size = equals ? (size_t)(equals - name) : strlen(name);
    const struct option *option = find_name(options->table, name, size);
    if (!option)
        return unknown(options->table, name, size, error);
    return set_with(options, option, equals ? equals + 1 : NULL, argc, argv, at, error);
}

bool options_parse(const struct option *table, int argc, const char *const *argv, struct options *options,
                   struct text *error) {
    *options = (struct options){.table = table};
    bool ended = false;
    for (int at = 0; at < argc; at++) {
        const char *word = argv[at];
        if (!ended && strcmp(word, "--") == 0) {
            ended = true;
        } else if (ended || word[0] != '-' || word[1] == '\0') {
            if (options->arguments == ARGUMENTS) {
                text_print(error, "more than %d arguments", ARGUMENTS);
                return false;
            }
            options->argument[options->arguments++] = word;
        } else if (!(word[1] == '-' ? read_name : read_letters)(options, argc, argv, &at, error)) {
            return false;
        }
    }
    return true;
}

/* Returns the first option of "tiles|model" that was given, or null. */
static const struct option *find_given(const struct options *options, const char *names) {
    for (const struct option *option = options->table; option->name; option++)
        if (names && options_word(names, option->name) >= 0 && options->value[option - options->table].given)
            return option;
    return NULL;
}

bool options_check(const struct options *options, const char *verb, const struct option_rule *rules,
                   struct text *error) {
    for (; rules->verb; rules++) {
        if (strcmp(rules->verb, verb) != 0 || !options_get(options, rules->option)->given)
            continue;
        const struct option *excluded = find_given(options, rules->excludes);
        if (excluded)
            return text_fail(error, "--%s does nothing with --%s; leave one of them out", rules->option,
                             excluded->name);
        if (!rules->needs || find_given(options, rules->needs))
            continue;
        text_print(error, "--%s does nothing without --", rules->option);
        for (const char *at = rules->needs; *at; at++)
            text_print(error, *at == '|' ? " or --" : "%c", *at);
        return false;
    }
    return true;
}

const struct option_value *options_get(const struct options *options, const char *name) {
    static const struct option_value none;
    const struct option *option = find_name(options->table, name, strlen(name));
    return option ? &options->value[option - options->table] : &none;
}

void options_help(const struct option *table, struct text *text) {
    for (; table->name; table++) {
        size_t start = text->size;
        text_print(text, table->letter ? "  -%c, " : "      ", table->letter);
        text_print(text, "--%s%s%s", table->name, table->value ? " " : "", table->value ? table->value : "");
        size_t width = text->size - start;
        if (width + 2 > HELP_INDENT)
            text_print(text, "\n%*s", HELP_INDENT, "");
        else
            text_print(text, "%*s", (int)(HELP_INDENT - width), "");
        terminal_wrap(text, table->about, HELP_INDENT, HELP_WIDTH);
    }
}
