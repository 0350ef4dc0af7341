/* read_args: checks that att_launch and att_check have in common. */
#ifndef ATTILE_READ_ARGS_H
#define ATTILE_READ_ARGS_H

#include "arguments.h"
#include "session.h"

/* Checks the arguments of a kernel and fills its parameters. Of the memory that they point to, reads only `params`. */
enum att_status read_args(const att_kernel *kernel, const struct att_args *args, struct arguments *arguments,
                          struct failure *failure);

/* Checks the numbers in the arrays of sequences, which are in host memory here; call it after read_args. */
enum att_status read_numbers(const att_kernel *kernel, const struct att_args *args, const struct arguments *arguments,
                             struct failure *failure);

#endif
