/* object: checks that a shared object is complete. The loader maps what the headers describe; a segment beyond the end
   of the file kills the process at the first access. */
#ifndef ATTILE_HOST_OBJECT_H
#define ATTILE_HOST_OBJECT_H

#include <stddef.h>

/* Returns null if the headers of segments and sections, and everything that they describe, are within the bytes;
   otherwise what is wrong. */
const char *object_check(const void *bytes, size_t size);

#endif
