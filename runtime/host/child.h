/* child: runs another program to its end, by its full path, never through a shell, in an environment made by
   child_run. */
#ifndef ATTILE_HOST_CHILD_H
#define ATTILE_HOST_CHILD_H

#include "failure.h"

/* Returns the full path of a program on the PATH, owned by the caller; null = there is none. A set-user-ID process does
   not read PATH; relative folders in it are always ignored. */
char *child_find(const char *program);

/* Starts `path` and waits for its end. Appends its output to *output; *good says whether its exit status was 0. Its
   environment is PATH, HOME and LD_LIBRARY_PATH of this process (only a fixed PATH in a set-user-ID process), LC_ALL=C,
   and TMPDIR=`folder` unless that is null. ATT_IO or ATT_OUT_OF_MEMORY if it did not start or its output could not be
   read to the end. */
enum att_status child_run(const char *path, char *const argv[], const char *folder, struct text *output, bool *good,
                          struct failure *failure);

#endif
