/* cli: what every verb of the `attile` command shares. A verb is one row of verbs.c and one function in the file of its
   name: it reads cli->options, writes data to cli->out (standard output, flushed by main) and returns an exit code.
   Messages for people go to standard error through cli_error and cli_note. */
#ifndef ATTILE_CLI_H
#define ATTILE_CLI_H

#include "attile.h"
#include "gen.h"
#include "json.h"
#include "options.h"

enum exit_code {
    CLI_OK = 0,
    CLI_MISMATCH = 1,  /* a check failed */
    CLI_USAGE = 2,     /* the command line, or a tensor given on it, is wrong */
    CLI_SPEC = 3,      /* a spec, problem or template is wrong, or no kernel satisfies it */
    CLI_TOOLCHAIN = 4, /* NVRTC or the C++ compiler is missing */
    CLI_DEVICE = 5,    /* no usable device, or it failed */
    CLI_COMPILE = 6,   /* a compiler refused an emitted source */
    CLI_IO = 7,        /* a file or the cache */
    CLI_INTERNAL = 8,  /* out of memory, or a bug */
    CLI_INTERRUPTED = 130
};

struct cli {
    const struct verb *verb;
    struct options options;
    struct text out;     /* data for standard output */
    struct text problem; /* what options.argument[0] points to when the shell split a problem into words */
    bool json, quiet, verbose;
    bool color_out, color_error;
    int width; /* columns of standard output */
};

struct verb {
    const char *name;      /* "run", "cache stat" */
    const char *arguments; /* "SPEC", as shown in help */
    int least, most;       /* how many arguments */
    const char *about;     /* one line */
    const struct option *options;
    const char *details; /* paragraphs and examples, or null */
    enum exit_code (*run)(struct cli *cli);
};

extern const struct verb verbs[];               /* ends with a null name */
extern const struct option_rule option_rules[]; /* of all verbs; ends with a null verb */

/* Options that every verb has; they come last in each table. */
#define CLI_COMMON_OPTIONS                                                                                             \
    {"json", 0, OPTION_FLAG, NULL, "write JSON to standard output, one document"},                                     \
        {"quiet", 'q', OPTION_FLAG, NULL, "print nothing but errors"},                                                 \
        {"verbose", 'v', OPTION_FLAG, NULL, "print more"},                                                             \
        {"color", 0, OPTION_WORD, "auto|always|never", "colours; auto (default) = on a terminal without NO_COLOR"},    \
        {"help", 'h', OPTION_FLAG, NULL, "show this text"}, {                                                          \
        NULL, 0, OPTION_FLAG, NULL, NULL                                                                               \
    }

/* Prints "attile: error: SENTENCE"; returns the code. */
enum exit_code cli_error(const struct cli *cli, enum exit_code code, const char *format, ...) TEXT_PRINTF(3, 4);

/* Prints messages that are already complete, such as those of a diag or a compiler; returns the code. */
enum exit_code cli_report(const struct cli *cli, enum exit_code code, const char *messages);

void cli_note(const struct cli *cli, const char *format, ...) TEXT_PRINTF(2, 3); /* not with --quiet */

/* Writes cli->out and empties it. False after a failure, which it reports; a closed pipe is not reported. */
bool cli_write(struct cli *cli);

/* The library's log callback, with the struct cli as its context: shows warnings of the library as notes. */
void cli_warning(void *cli, enum att_log_level level, const char *message);

enum exit_code cli_exit_code(enum att_status status);

/* Returns the worse of two outcomes, so that one failure among many is kept. */
enum exit_code cli_worse(enum exit_code a, enum exit_code b);

/* Begins the JSON document of a verb in cli->out: {"schema": "attile.VERB/1", "version": ...; json_close ends it. */
void cli_json_open(struct cli *cli, struct json *json);

bool cli_given(const struct cli *cli, const char *option);
const char *cli_text(const struct cli *cli, const char *option, const char *fallback);
int64_t cli_number(const struct cli *cli, const char *option, int64_t fallback); /* numbers and words */
int cli_count(const struct cli *cli, const char *option, int fallback);          /* a number, INT_MAX at most */

/* True after the first Ctrl-C: long loops stop at the next row, keep what is finished and return CLI_INTERRUPTED. */
bool cli_interrupted(void);
void cli_catch_interrupt(void);

/* Prints the help of one verb, or the overview for null. */
void help_verb(const struct verb *verb, struct text *text);
void help_overview(struct text *text);

#define VERB(name) enum exit_code name(struct cli *cli)
VERB(verb_build);
VERB(verb_cache_clear);
VERB(verb_cache_explain);
VERB(verb_cache_list);
VERB(verb_cache_stat);
VERB(verb_cache_trim);
VERB(verb_cache_verify);
VERB(verb_doctor);
VERB(verb_explain);
VERB(verb_explore);
VERB(verb_generate);
VERB(verb_help);
VERB(verb_list);
VERB(verb_run);
VERB(verb_show);
VERB(verb_tune);
VERB(verb_version);
#undef VERB

extern const struct option options_build[], options_cache[], options_cache_explain[], options_cache_trim[],
    options_common[], options_explain[], options_explore[], options_generate[], options_help_verb[], options_list[],
    options_run[], options_show[], options_tune[];

#endif
