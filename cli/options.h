/* options: reads a command line by a table, and writes help from the same table, so that the two cannot diverge. */
#ifndef ATTILE_OPTIONS_H
#define ATTILE_OPTIONS_H

#include "text.h"

#include <stdint.h>

enum option_kind {
    OPTION_FLAG,   /* --quiet */
    OPTION_TEXT,   /* --out FILE, --out=FILE, -o FILE, -oFILE */
    OPTION_NUMBER, /* --seed N: an integer in [0, 2^63) */
    OPTION_WORD    /* --color auto|always|never: `value` lists the words; the number of the word is kept */
};

struct option {
    const char *name; /* without dashes; null ends a table */
    char letter;      /* short form, or 0 */
    enum option_kind kind;
    const char *value; /* "FILE", "N", "auto|always|never"; null for flags */
    const char *about; /* one sentence, lower-case first letter, no full stop; includes the default */
};

/* An option that has no effect alone, or together with others: 'a|b' = any of these. */
struct option_rule {
    const char *verb, *option;    /* a null verb ends a table */
    const char *needs, *excludes; /* or null */
};

struct option_value {
    bool given;
    const char *text; /* borrowed from argv */
    int64_t number;   /* the number, or the index of the word */
};

enum { OPTIONS = 32, ARGUMENTS = 256 };

/* The parsed command line. value[i] belongs to table[i]. If an option is given twice, the last one counts. */
struct options {
    const struct option *table;
    struct option_value value[OPTIONS];
    const char *argument[ARGUMENTS]; /* positional arguments */
    int arguments;
};

/* Reads argv[0..argc). "--" ends the options; "-" alone is an argument. False with a sentence in *error. */
bool options_parse(const struct option *table, int argc, const char *const *argv, struct options *options,
                   struct text *error);

/* False with a sentence in *error when the options break a rule of this verb. */
bool options_check(const struct options *options, const char *verb, const struct option_rule *rules,
                   struct text *error);

/* Returns the value of an option by its name; the table must have it. */
const struct option_value *options_get(const struct options *options, const char *name);

/* Prints one line per option, aligned, in HELP_WIDTH columns. */
enum { HELP_WIDTH = 80 };
void options_help(const struct option *table, struct text *text);

/* Returns the index of the word in "auto|always|never", or -1. */
int options_word(const char *words, const char *word);

#endif
