#include "transfer.h"

#include <errno.h>
#include <unistd.h>

enum { RETRIES = 100 }; /* of an interrupted call: bounded, so that nothing can hang us */

int transfer_read(int file, char *bytes, size_t size) {
    size_t done = 0;
    for (int interrupts = 0;;) {
        char beyond;
        ssize_t n = done < size ? read(file, bytes + done, size - done) : read(file, &beyond, 1);
        if (n < 0 && (errno != EINTR || ++interrupts > RETRIES))
            return -1;
        if (n == 0)
            return done == size;
        if (n > 0 && done == size)
            return 0;
        done += n > 0 ? (size_t)n : 0;
    }
}

bool transfer_write(int file, const char *bytes, size_t size) {
    for (int interrupts = 0; size;) {
        ssize_t n = write(file, bytes, size);
        if (n == 0)
            errno = EIO; /* no system call has set it */
        if (n == 0 || (n < 0 && (errno != EINTR || ++interrupts > RETRIES)))
            return false;
        bytes += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
    return true;
}
