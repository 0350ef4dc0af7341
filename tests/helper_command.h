/* helper_command: runs the attile command in the current folder, which belongs to the test (helper_folder.h). */
#ifndef HELPER_COMMAND_H
#define HELPER_COMMAND_H

#include "helper_folder.h"
#include "text.h"

struct outcome {
    int code; /* exit status */
    struct text out, err;
};

/* Runs "ENVIRONMENT attile ARGUMENTS" through the shell. The output also stays in .out and .err. */
struct outcome command_run(const char *environment, const char *arguments);
void command_done(struct outcome *outcome);

#endif
