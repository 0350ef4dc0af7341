#include "text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *read_all(int file, struct text *text) {
    struct stat about;
    char part[4096];
    if (fstat(file, &about) != 0)
        return strerror(errno);
    if (!S_ISREG(about.st_mode))
        return "it is no regular file";
    text_append(text, "", 0); /* an empty file is a text too */
    for (;;) {
        ssize_t size = read(file, part, sizeof part);
        if (size < 0 && errno == EINTR)
            continue;
        if (size < 0)
            return strerror(errno);
        if (size == 0)
            return text->failed ? strerror(ENOMEM) : NULL;
        text_append(text, part, (size_t)size);
        if (text->size > TEXT_FILE_MOST)
            return "it is larger than 1 MiB";
    }
}

const char *text_file_read(const char *path, struct text *text, bool *absent) {
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* opening a pipe must not wait for its other end */
    if (absent)
        *absent = file < 0 && (errno == ENOENT || errno == ENOTDIR);
    if (file < 0)
        return strerror(errno);
    const char *why = read_all(file, text);
    close(file);
    return why;
}
