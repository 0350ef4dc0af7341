/* scratch: a private folder for one run of the compiler, below TMPDIR (/tmp in a set-user-ID process). A process that
   dies leaves its folder behind; the next process removes folders that are too old to belong to a running compile. */
#ifndef ATTILE_HOST_SCRATCH_H
#define ATTILE_HOST_SCRATCH_H

#include "failure.h"

/* Returns the path of a new folder, for scratch_close; null: see failure. */
char *scratch_open(struct failure *failure);

/* Removes the folder and its files as far as possible. */
void scratch_close(char *path);

#endif
