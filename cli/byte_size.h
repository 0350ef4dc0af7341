/* byte_size: "500000", "640K", "1.5M", "2G" -> bytes; K, M and G are 1024, 1024^2 and 1024^3. */
#ifndef ATTILE_BYTE_SIZE_H
#define ATTILE_BYTE_SIZE_H

#include <stdbool.h>
#include <stdint.h>

/* False when the text is malformed, or the size is less than one byte or more than 2^50. */
bool byte_size_read(const char *text, uint64_t *bytes);

#endif
