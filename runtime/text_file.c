#include "text_file.h"

#include <errno.h>
#include <stdio.h>

bool text_file_read(const char *path, struct text *text) {
    FILE *file = fopen(path, "rb");
    if (!file)
        return false;
    char part[4096];
    text_append(text, "", 0); /* an empty file is a text too */
    for (size_t size; text->size <= TEXT_FILE_MOST && (size = fread(part, 1, sizeof part, file)) > 0;)
        text_append(text, part, size);
    bool good = !ferror(file) && !text->failed;
    int error = text->failed ? ENOMEM : errno;
    fclose(file);
    errno = good ? EFBIG : error;
    return good && text->size <= TEXT_FILE_MOST;
}
