/* file: whole files in and out. Writing is all or nothing: a private temporary beside the target, then a rename. */
#ifndef ATTILE_FILE_H
#define ATTILE_FILE_H

#include "text.h"

/* Read a whole file; "-" is standard input. False with a sentence in *error. At most `limit` bytes are accepted. */
bool file_load(const char *path, size_t limit, struct text *content, struct text *error);

/* Replace a file's content, unless it is equal already: then the file, and its time, stay untouched, so that build
   systems do nothing. *changed (may be null) says which. */
bool file_save(const char *path, const void *bytes, size_t size, bool *changed, struct text *error);

/* Could file_save write this path? Tries it, and leaves nothing. False with a sentence in *error. */
bool file_can_save(const char *path, struct text *error);

/* Make a folder and its parents where they are missing. */
bool file_make_folder(const char *path, struct text *error);

/* `name` in the folder of `base`; just `name` when it is absolute. */
void file_beside(const char *base, const char *name, struct text *path);

#endif
