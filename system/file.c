#include "file.h"
#include "transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool fail(struct text *error, const char *what, const char *path) {
    text_print(error, "%s %s: %s", what, path, strerror(errno));
    return false;
}

/* Content that exceeds the limit is an error of its own: errno 0. */
static bool read_all(int fd, size_t limit, struct text *content) {
    char block[65536];
    for (;;) {
        ssize_t got = read(fd, block, sizeof block);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got == 0;
        text_append(content, block, (size_t)got);
        if (content->failed || content->size > limit) {
            errno = content->failed ? ENOMEM : 0;
            return false;
        }
    }
}

bool file_load(const char *path, size_t limit, struct text *content, struct text *error) {
    bool standard = strcmp(path, "-") == 0;
    int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail(error, "cannot open", path);
    bool ok = read_all(fd, limit, content);
    if (!ok && errno == 0)
        text_print(error, "%s is larger than %zu bytes, the most that is read of such a file", path, limit);
    else if (!ok)
        fail(error, "cannot read", path);
    if (!standard)
        close(fd);
    return ok;
}

static bool same_content(const char *path, const void *bytes, size_t size) {
    struct text there = {0}, ignored = {0};
    bool same = file_load(path, size, &there, &ignored) && there.size == size &&
                (size == 0 || memcmp(there.bytes, bytes, size) == 0);
    text_free(&there);
    text_free(&ignored);
    return same;
}

/* Opens a private file beside `path`; -1 with a sentence in *error. */
static int open_temporary(const char *path, struct text *temporary, struct text *error) {
    text_print(temporary, "%s.XXXXXX", path);
    int fd = temporary->failed ? -1 : mkostemp(temporary->bytes, O_CLOEXEC);
    if (fd < 0) {
        fail(error, "cannot write", path);
        text_free(temporary);
    }
    return fd;
}

bool file_can_save(const char *path, struct text *error) {
    struct text temporary = {0};
    struct stat info;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
        errno = EISDIR;
        return fail(error, "cannot write", path);
    }
    int fd = open_temporary(path, &temporary, error);
    if (fd < 0)
        return false;
    close(fd);
    unlink(temporary.bytes);
    text_free(&temporary);
    return true;
}

bool file_save(const char *path, const void *bytes, size_t size, bool *changed, struct text *error) {
    bool same = same_content(path, bytes, size);
    if (changed)
        *changed = !same;
    if (same)
        return true;
    struct text temporary = {0};
    int fd = open_temporary(path, &temporary, error);
    if (fd < 0)
        return false;
    mode_t mask = umask(0); /* mkostemp makes a private file; the result has ordinary permissions */
    umask(mask);
    bool ok = transfer_write(fd, bytes, size) && fchmod(fd, 0666 & ~mask) == 0;
    ok = close(fd) == 0 && ok && rename(temporary.bytes, path) == 0;
    if (!ok) {
        fail(error, "cannot write", path);
        unlink(temporary.bytes);
    }
    text_free(&temporary);
    return ok;
}

static bool make_one(const char *path, struct text *error) {
    struct stat info;
    if (mkdir(path, 0777) == 0)
        return true;
    if (errno == EEXIST && stat(path, &info) == 0) {
        if (S_ISDIR(info.st_mode))
            return true;
        errno = ENOTDIR;
    }
    return fail(error, "cannot make folder", path);
}

bool file_make_folder(const char *path, struct text *error) {
    struct text prefix = {0};
    text_print(&prefix, "%s", path);
    errno = prefix.failed ? ENOMEM : ENOENT;
    bool ok = (!prefix.failed && prefix.size > 0) || fail(error, "cannot make folder", path);
    for (size_t i = 1; ok && i <= prefix.size; i++) {
        char kept = prefix.bytes[i];
        if (kept != '/' && kept != '\0')
            continue;
        prefix.bytes[i] = '\0';
        ok = make_one(prefix.bytes, error);
        prefix.bytes[i] = kept;
    }
    text_free(&prefix);
    return ok;
}

void file_beside(const char *base, const char *name, struct text *path) {
    const char *slash = strrchr(base, '/');
    if (slash && name[0] != '/')
        text_append(path, base, (size_t)(slash + 1 - base));
    text_print(path, "%s", name);
}
