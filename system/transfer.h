/* transfer: transfers all bytes of a file or none, despite interrupts. No function here can wait for ever. */
#ifndef ATTILE_TRANSFER_H
#define ATTILE_TRANSFER_H

#include <stdbool.h>
#include <stddef.h>

/* Reads exactly `size` bytes, which must end at the end of the file. 1 = done, 0 = another size, -1 = error, see
   errno. */
int transfer_read(int file, char *bytes, size_t size);

/* Writes all bytes. False = error, see errno. */
bool transfer_write(int file, const char *bytes, size_t size);

#endif
