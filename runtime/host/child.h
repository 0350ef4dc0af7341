/* child: runs another program to its end, by its full path, never through a shell, in an environment that child_run makes. */
#ifndef ATTILE_HOST_CHILD_H
#define ATTILE_HOST_CHILD_H

#include "failure.h"

/* The full path of a program on the PATH, owned by the caller; null = there is none. In a set-user-ID process PATH is
   not read; relative folders in it never count. */
char *child_find(const char *program);

/* Start `path` and wait for its end. *output gets what it writes; *good says whether its exit status was 0. Its environment is PATH,
   HOME and LD_LIBRARY_PATH of this process (a fixed PATH alone in a set-user-ID process), LC_ALL=C, and TMPDIR=`folder` unless that is
   null. ATT_IO or ATT_OUT_OF_MEMORY when it did not start or its output could not be read to the end. */
enum att_status child_run(const char *path, char *const argv[], const char *folder, struct text *output, bool *good,
                          struct failure *failure);

#endif
