#include "helper_command.h"
#include "file.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static struct outcome run_once(const char *environment, const char *arguments) {
    struct outcome outcome = {0};
    struct text command = {0}, error = {0};
    text_print(&command, "%s " BUILD_DIR "/cli/attile %s >.out 2>.err </dev/null", environment, arguments);
    int status = system(text_string(&command));
    cr_assert(WIFEXITED(status), "attile %s: died", arguments);
    outcome.code = WEXITSTATUS(status);
    cr_assert(file_load(".out", 1 << 26, &outcome.out, &error) && file_load(".err", 1 << 26, &outcome.err, &error),
              "%s", text_string(&error));
    text_free(&command);
    return outcome;
}

struct outcome command_run(const char *environment, const char *arguments) {
    struct outcome outcome = run_once(environment, arguments);
    /* gcc 12's leak checker itself crashes once in some thousand runs of a program with threads. It has then
       found no leak. */
    if (strstr(text_string(&outcome.err), "LeakSanitizer has encountered a fatal error")) {
        command_done(&outcome);
        outcome = run_once(environment, arguments);
    }
    return outcome;
}

void command_done(struct outcome *outcome) {
    text_free(&outcome->out);
    text_free(&outcome->err);
}
