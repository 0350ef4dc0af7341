/* transfer: all bytes of a file or none, whatever interrupts. Nothing here can wait for ever. */
#ifndef ATTILE_TRANSFER_H
#define ATTILE_TRANSFER_H

#include <stdbool.h>
#include <stddef.h>

/* Read exactly `size` bytes and find the end of the file there. 1 = done, 0 = another size, -1 = error, see errno. */
int transfer_read(int file, char *bytes, size_t size);

/* Write all bytes. False = error, see errno. */
bool transfer_write(int file, const char *bytes, size_t size);

#endif
