/* helper_command: run the attile command in the current folder, which is the test's own (helper_folder.h). */
#ifndef HELPER_COMMAND_H
#define HELPER_COMMAND_H

#include "helper_folder.h"
#include "text.h"

struct outcome {
    int code; /* exit status */
    struct text out, err;
};

/* Run "ENVIRONMENT attile ARGUMENTS" through the shell. What it wrote stays in .out and .err, too. */
struct outcome command_run(const char *environment, const char *arguments);
void command_done(struct outcome *outcome);

#endif
