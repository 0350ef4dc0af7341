#include "scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char prefix[] = "attile-compile-";
static const int64_t stale_seconds =
    600; /* no compile takes this long; a jump of the clock can cost at most one compile */

static const char *get_base(void) {
    const char *base = secure_getenv("TMPDIR");
    return base && *base == '/' ? base : "/tmp";
}

/* Opens a stream over the folder of that name; null = there is none, or it is a link. */
static DIR *open_folder(int parent, const char *name) {
    int folder = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *stream = folder < 0 ? NULL : fdopendir(folder);
    if (!stream && folder >= 0)
        close(folder);
    return stream;
}

static void remove_folder(int parent, const char *name) {
    DIR *stream = open_folder(parent, name);
    for (const struct dirent *entry; stream && (entry = readdir(stream));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlinkat(dirfd(stream), entry->d_name, 0);
    if (stream)
        closedir(stream);
    unlinkat(parent, name, AT_REMOVEDIR);
}

static bool is_stale(int parent, const char *name) {
    struct stat status;
    if (strncmp(name, prefix, sizeof prefix - 1) != 0 || fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) != 0)
        return false;
    int64_t age = (int64_t)time(NULL) - status.st_mtime;
    return S_ISDIR(status.st_mode) && status.st_uid == geteuid() && (age >= stale_seconds || -age > stale_seconds);
}

static void sweep(const char *base) {
    DIR *stream = opendir(base);
    for (const struct dirent *entry; stream && (entry = readdir(stream));)
        if (is_stale(dirfd(stream), entry->d_name))
            remove_folder(dirfd(stream), entry->d_name);
    if (stream)
        closedir(stream);
}

char *scratch_open(struct failure *failure) {
    const char *base = get_base();
    char *path;
    sweep(base);
    if (asprintf(&path, "%s/%sXXXXXX", base, prefix) < 0) {
        failure_set(failure, ATT_OUT_OF_MEMORY, "out of memory for the path of a folder in %s", base);
        return NULL;
    }
    if (mkdtemp(path))
        return path;
    failure_set(failure, ATT_IO,
                "cannot make a folder for the compiler in %s: %s; set TMPDIR to a directory that you can write to",
                base, strerror(errno));
    free(path);
    return NULL;
}

void scratch_close(char *path) {
    remove_folder(AT_FDCWD, path);
    free(path);
}
