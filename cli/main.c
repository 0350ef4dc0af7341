/* attile: the command. Finds the verb in the table, reads its options by its table, runs it, and writes its output. */
#include "cli.h"
#include "diag.h"
#include "terminal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Finds a verb of one word or two ("cache stat"); *words receives their number. */
static const struct verb *find_verb(int argc, const char *const *argv, int *words) {
    for (const struct verb *verb = verbs; verb->name; verb++) {
        const char *space = strchr(verb->name, ' ');
        size_t first = space ? (size_t)(space - verb->name) : strlen(verb->name);
        if (strlen(argv[0]) != first || memcmp(argv[0], verb->name, first) != 0)
            continue;
        *words = space ? 2 : 1;
        if (!space || (argc > 1 && strcmp(argv[1], space + 1) == 0))
            return verb;
    }
    return NULL;
}

static const char *next_verb(void *context) {
    const struct verb **at = context;
    return (*at)->name ? (*at)++->name : NULL;
}

static enum exit_code unknown_verb(const struct cli *cli, int argc, const char *const *argv) {
    struct text wanted = {0};
    const struct verb *at = verbs;
    bool cache = strcmp(argv[0], "cache") == 0;
    text_print(&wanted, cache && argc > 1 ? "%s %s" : "%s", argv[0], argc > 1 ? argv[1] : "");
    const char *near = diag_nearest(text_string(&wanted), wanted.size, next_verb, &at);
    if (cache && argc == 1)
        cli_error(cli, CLI_USAGE, "cache expects stat, list, explain, verify, trim or clear after it");
    else
        cli_error(cli, CLI_USAGE, "unknown verb '%s'%s%s%s", text_string(&wanted), near ? "; did you mean '" : "",
                  near ? near : "; see attile help", near ? "'?" : "");
    text_free(&wanted);
    return CLI_USAGE;
}

/* Joins the words of a problem that the shell passed as several arguments. */
static void join_problem(struct cli *cli) {
    struct options *options = &cli->options;
    bool problem = false, pairs = options->arguments > 1 && cli->verb->least > 0;
    for (int i = 0; i < options->arguments; i++) {
        problem = problem || strncmp(options->argument[i], "family=", 7) == 0;
        pairs = pairs && strchr(options->argument[i], '=');
    }
    if (!pairs || !problem)
        return;
    for (int i = 0; i < options->arguments; i++)
        text_print(&cli->problem, "%s%s", i ? " " : "", options->argument[i]);
    options->argument[0] = text_string(&cli->problem);
    options->arguments = 1;
}

static enum exit_code check_arguments(const struct cli *cli) {
    const struct verb *verb = cli->verb;
    int found = cli->options.arguments;
    if (found >= verb->least && found <= verb->most)
        return CLI_OK;
    if (verb->most == 0)
        return cli_error(cli, CLI_USAGE, "%s takes no arguments, found '%s'", verb->name, cli->options.argument[0]);
    return cli_error(cli, CLI_USAGE, "%s expects %s, found %d arguments; see attile help %s", verb->name,
                     verb->arguments, found, verb->name);
}

static enum exit_code run(struct cli *cli, int argc, const char *const *argv) {
    struct text error = {0};
    if (!options_parse(cli->verb->options, argc, argv, &cli->options, &error)) {
        cli_error(cli, CLI_USAGE, "%s: %s", cli->verb->name, text_string(&error));
        text_free(&error);
        return CLI_USAGE;
    }
    enum color_choice color = (enum color_choice)cli_number(cli, "color", COLOR_AUTO);
    cli->color_out = terminal_color(stdout, color);
    cli->color_error = terminal_color(stderr, color);
    cli->width = terminal_width(stdout);
    cli->json = cli_given(cli, "json");
    cli->quiet = cli_given(cli, "quiet");
    cli->verbose = cli_given(cli, "verbose");
    if (cli_given(cli, "help")) {
        help_verb(cli->verb, &cli->out);
        return CLI_OK;
    }
    join_problem(cli);
    if (!options_check(&cli->options, cli->verb->name, option_rules, &error)) {
        cli_error(cli, CLI_USAGE, "%s: %s", cli->verb->name, text_string(&error));
        text_free(&error);
        return CLI_USAGE;
    }
    enum exit_code code = check_arguments(cli);
    return code ? code : cli->verb->run(cli);
}

static bool is_help(const char *word) { return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0; }

/* Writes standard output at the end, except for what a verb wrote itself. A reader (such as head) that closes the pipe
   is not an error. */
static enum exit_code flush(struct cli *cli, enum exit_code code) {
    if (cli->out.failed)
        return cli_error(cli, CLI_INTERNAL, "out of memory");
    return cli_write(cli) || errno == EPIPE ? code : CLI_IO;
}

int main(int argc, char **argv) {
    struct cli cli = {.color_error = terminal_color(stderr, COLOR_AUTO)};
    const char *const *words = (const char *const *)argv + 1;
    int count = argc - 1, taken = 1;
    static const char *const overview[] = {"help"}, *const cache[] = {"help", "cache"}, *const version[] = {"version"};
    if (count > 0 && is_help(words[0]))
        words = overview;
    else if (count == 2 && strcmp(words[0], "cache") == 0 && is_help(words[1]))
        words = cache;
    else if (count > 0 && strcmp(words[0], "--version") == 0)
        words = version;
    if (count <= 0) {
        struct text text = {0};
        help_overview(&text);
        cli_report(&cli, CLI_USAGE, text_string(&text));
        text_free(&text);
        return CLI_USAGE;
    }
    cli.verb = find_verb(count, words, &taken);
    if (!cli.verb)
        return unknown_verb(&cli, count, words);
    enum exit_code code = flush(&cli, run(&cli, count - taken, words + taken));
    text_free(&cli.out);
    text_free(&cli.problem);
    return code;
}
