/* file: reads and writes whole files. Writing is all or nothing: a private temporary file beside the target, then a
   rename. */
#ifndef ATTILE_FILE_H
#define ATTILE_FILE_H

#include "text.h"

/* Reads a whole file; "-" is standard input. False with a sentence in *error. Accepts at most `limit` bytes. */
bool file_load(const char *path, size_t limit, struct text *content, struct text *error);

/* Replaces a file's content, unless it is already equal: the file and its time then stay untouched, so that build
   systems do nothing. *changed (may be null) says which. */
bool file_save(const char *path, const void *bytes, size_t size, bool *changed, struct text *error);

/* True if file_save could write this path. Tries it, and leaves nothing behind. False with a sentence in *error. */
bool file_can_save(const char *path, struct text *error);

/* Makes a folder and any missing parents. */
bool file_make_folder(const char *path, struct text *error);

/* Appends the path of `name` in the folder of `base`; just `name` if it is absolute. */
void file_beside(const char *base, const char *name, struct text *path);

#endif
