#include "cli.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static void say(const struct cli *cli, const char *kind, const char *color, const char *format, va_list arguments) {
    struct text text = {0};
    text_vprint(&text, format, arguments);
    bool paint = cli->color_error;
    fprintf(stderr, "attile: %s%s%s%s\n", paint ? color : "", kind, paint && *color ? "\033[0m" : "",
            text_string(&text));
    text_free(&text);
}

enum exit_code cli_error(const struct cli *cli, enum exit_code code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say(cli, "error: ", "\033[1;31m", format, arguments);
    va_end(arguments);
    return code;
}

enum exit_code cli_report(const struct cli *cli, enum exit_code code, const char *messages) {
    (void)cli;
    size_t size = strlen(messages);
    fprintf(stderr, "%s%s", messages, size && messages[size - 1] == '\n' ? "" : "\n");
    return code;
}

void cli_note(const struct cli *cli, const char *format, ...) {
    if (cli->quiet)
        return;
    va_list arguments;
    va_start(arguments, format);
    say(cli, "", "", format, arguments);
    va_end(arguments);
}

void cli_warning(void *cli, enum att_log_level level, const char *message) {
    if (level == ATT_LOG_WARNING)
        cli_note(cli, "%s", message);
}

bool cli_write(struct cli *cli) {
    bool written = fwrite(text_string(&cli->out), 1, cli->out.size, stdout) == cli->out.size && fflush(stdout) == 0;
    text_free(&cli->out);
    if (!written && errno != EPIPE)
        cli_error(cli, CLI_IO, "cannot write standard output: %s", strerror(errno));
    return written;
}

enum exit_code cli_exit_code(enum att_status status) {
    static const enum exit_code codes[ATT_STATUS_COUNT] = {
        [ATT_OK] = CLI_OK,
        [ATT_INVALID_ARGUMENT] = CLI_USAGE,
        [ATT_INVALID_TEXT] = CLI_SPEC,
        [ATT_UNSUPPORTED] = CLI_SPEC,
        [ATT_NO_DEVICE] = CLI_DEVICE,
        [ATT_NO_COMPILER] = CLI_TOOLCHAIN,
        [ATT_COMPILE_FAILED] = CLI_COMPILE,
        [ATT_NOT_PREPARED] = CLI_INTERNAL,
        [ATT_LAUNCH_FAILED] = CLI_DEVICE,
        [ATT_OUT_OF_MEMORY] = CLI_INTERNAL,
        [ATT_IO] = CLI_IO,
        [ATT_FORKED] = CLI_INTERNAL,
        [ATT_INTERNAL] = CLI_INTERNAL,
    };
    return (unsigned)status < ATT_STATUS_COUNT ? codes[status] : CLI_INTERNAL;
}

enum exit_code cli_worse(enum exit_code a, enum exit_code b) { return a > b ? a : b; }

void cli_json_open(struct cli *cli, struct json *json) {
    char schema[64];
    snprintf(schema, sizeof schema, "attile.%s/1", cli->verb->name);
    for (char *at = schema; *at; at++)
        if (*at == ' ')
            *at = '.';
    json_open(json, &cli->out);
    json_open_object(json, NULL);
    json_put_string(json, "schema", schema);
    json_put_string(json, "version", att_version());
}

bool cli_given(const struct cli *cli, const char *option) { return options_get(&cli->options, option)->given; }

const char *cli_text(const struct cli *cli, const char *option, const char *fallback) {
    const struct option_value *value = options_get(&cli->options, option);
    return value->given ? value->text : fallback;
}

int64_t cli_number(const struct cli *cli, const char *option, int64_t fallback) {
    const struct option_value *value = options_get(&cli->options, option);
    return value->given ? value->number : fallback;
}

int cli_count(const struct cli *cli, const char *option, int fallback) {
    int64_t number = cli_number(cli, option, fallback);
    return number < INT_MAX ? (int)number : INT_MAX;
}

static volatile sig_atomic_t interrupted;

static void interrupt(int number) {
    interrupted = 1;
    signal(number, SIG_DFL); /* a second Ctrl-C ends the process at once */
}

bool cli_interrupted(void) { return interrupted != 0; }

void cli_catch_interrupt(void) {
    struct sigaction action = {.sa_handler = interrupt, .sa_flags = SA_RESTART};
    sigaction(SIGINT, &action, NULL);
}
