/* scratch: a private folder for one run of the compiler and all that it leaves, below TMPDIR (not in a set-user-ID
   process) or /tmp. A process that dies leaves its folder behind; the next process removes folders that no
   compile can still be using. */
#ifndef ATTILE_HOST_SCRATCH_H
#define ATTILE_HOST_SCRATCH_H

#include "failure.h"

/* The path of a new folder, for scratch_close; null: see failure. */
char *scratch_open(struct failure *failure);

/* Remove the folder with the files in it, as far as it can be done. */
void scratch_close(char *path);

#endif
