/* text_file: a whole file -> text. */
#ifndef ATTILE_TEXT_FILE_H
#define ATTILE_TEXT_FILE_H

#include "text.h"

enum { TEXT_FILE_MOST = 1 << 20 };

/* Returns null, or why the file cannot be read: also if it is not a regular file (a pipe would never end) or is larger
   than TEXT_FILE_MOST. Sets *absent, unless null, if there is no file of this name. */
const char *text_file_read(const char *path, struct text *text, bool *absent);

#endif
