/* helper_cases: text cases. A case file holds any number of

       ==== title
       input
       ---- expected
       output

   and a test defines how input becomes output. ATTILE_UPDATE_GOLDEN=1 in the environment rewrites the outputs instead
   of comparing them. Read the difference before you commit it. */
#ifndef ATTILE_HELPER_CASES_H
#define ATTILE_HELPER_CASES_H

#include "text.h"

typedef void case_run(const char *title, const char *input, size_t size, struct text *output);

/* Runs every case of tests/cases/`file`. Returns the number of cases whose output differs and shows each on stderr;
   returns -1 when the file cannot be read or holds no case. `run_count` may be null. */
int cases_check(const char *file, case_run *run, int *run_count);

/* Reads a whole file, with a path relative to the source folder. Returns false when it cannot be read. The caller
   frees the text. */
bool file_read(const char *path, struct text *text);
bool file_write(const char *path, const struct text *text);
bool cases_updating(void);

#endif
