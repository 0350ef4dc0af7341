/* child: runs another program to its end: by its full path, never through a shell, in an environment of our own making. */
#ifndef ATTILE_HOST_CHILD_H
#define ATTILE_HOST_CHILD_H

#include "failure.h"

/* The full path of a program on the PATH, owned by the caller; null = there is none. In a set-user-ID process PATH is
   not read; relative folders in it never count. */
char *child_find(const char *program);

/* Start `path` and wait for its end. What it writes goes to *output, and *good says whether it ended with status 0. It
   sees PATH, HOME and LD_LIBRARY_PATH as they are (in a set-user-ID process: a fixed PATH alone), LC_ALL=C, and
   `folder`, unless null, as TMPDIR. ATT_IO or ATT_OUT_OF_MEMORY when it could not be started or heard to its end. */
enum att_status child_run(const char *path, char *const argv[], const char *folder, struct text *output, bool *good,
                          struct failure *failure);

#endif
