/* text_file: a whole file -> text. */
#ifndef ATTILE_TEXT_FILE_H
#define ATTILE_TEXT_FILE_H

#include "text.h"

enum { TEXT_FILE_MOST = 1 << 20 };

/* False when it cannot be read or is larger than TEXT_FILE_MOST; errno says why, EFBIG for the latter. */
bool text_file_read(const char *path, struct text *text);

#endif
