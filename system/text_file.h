/* text_file: a whole file -> text. */
#ifndef ATTILE_TEXT_FILE_H
#define ATTILE_TEXT_FILE_H

#include "text.h"

enum { TEXT_FILE_MOST = 1 << 20 };

/* Null, or why it cannot be read: also when it is no regular file (a pipe would never end) or larger than
   TEXT_FILE_MOST. *absent, unless null: there is none of this name. */
const char *text_file_read(const char *path, struct text *text, bool *absent);

#endif
