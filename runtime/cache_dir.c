/* cache_dir: options and environment -> an open directory that only this user can have written, or none and one
   warning. Never a shared temporary directory, never under set-user-ID. */
#include "cache_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

enum { DIRECTORY = O_RDONLY | O_DIRECTORY | O_CLOEXEC };
static const uint64_t limit_default = UINT64_C(1) << 30;
static const int lock_wait_default = 120 * 1000;

void cache_warn(struct cache_disk *disk, enum cache_warning once, const char *format, ...) {
    if (!disk->log || (atomic_fetch_or(&disk->warned, (unsigned)once) & (unsigned)once))
        return;
    struct text message = {0};
    text_append(&message, "cache: ", 7);
    va_list arguments;
    va_start(arguments, format);
    text_vprint(&message, format, arguments);
    va_end(arguments);
    disk->log(disk->log_context, ATT_LOG_WARNING, text_string(&message));
    text_free(&message);
}

bool cache_trusted(const struct stat *status, const char **why) {
    bool owned = status->st_uid == geteuid() || status->st_uid == 0;
    bool closed = !(status->st_mode & (S_IWGRP | S_IWOTH));
    *why = !owned ? "it belongs to another user" : !closed ? "others may write to it" : NULL;
    return owned && closed;
}

static const char *environment(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* Returns the directory to use, malloc'ed. *existing: length of the part of the path that must already exist, because a
   missing HOME is not ours to create. If there is none, returns null and sets *why. */
static char *find(const char *wanted, size_t *existing, const char **why) {
    const struct {
        const char *base, *below;
        bool must_exist;
    } places[] = {
        {environment("ATTILE_CACHE_DIR"), "", false},
        {environment("XDG_CACHE_HOME"), "/attile", false},
        {environment("HOME"), "/.cache/attile", true},
    };
    struct text path = {0};
    *existing = 0;
    *why = "memory ran out";
    if (wanted && *wanted) {
        text_print(&path, "%s", wanted);
        return path.bytes;
    }
    if (places[0].base && places[0].base[0] != '/') {
        *why = "ATTILE_CACHE_DIR is not an absolute path";
        return NULL;
    }
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (!places[i].base || places[i].base[0] != '/')
            continue;
        text_print(&path, "%s%s", places[i].base, places[i].below);
        *existing = places[i].must_exist ? strlen(places[i].base) : 0;
        return path.bytes;
    }
    *why = "none of ATTILE_CACHE_DIR, XDG_CACHE_HOME and HOME is set to an absolute path";
    return NULL;
}

/* Returns why a directory could not be made; null if it was made or already exists. It may exist behind a parent that
   is not ours: opening it shows whether it can be used. */
static const char *make(int parent, const char *path) {
    return mkdirat(parent, path, 0700) == 0 || errno == EEXIST ? NULL : strerror(errno);
}

/* The same for a path. If several parents could not be made, returns the reason for the first. */
static const char *make_all(char *path, size_t existing) {
    const char *unmade = NULL, *why;
    for (char *slash = path + existing; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = '\0';
        if (slash > path + existing)
            unmade = (why = make(AT_FDCWD, path)) && unmade ? unmade : why;
    }
    return (why = make(AT_FDCWD, path)) && unmade ? unmade : why;
}

/* Opens a directory below `parent` and checks it. If it cannot be used, returns -1 and sets *why. */
static int open_trusted(int parent, const char *path, int flags, const char **why) {
    int directory = openat(parent, path, DIRECTORY | flags);
    if (directory < 0) {
        *why = strerror(errno);
        return -1;
    }
    struct stat status;
    if (fstat(directory, &status) == 0 && cache_trusted(&status, why))
        return directory;
    if (!*why)
        *why = strerror(errno);
    close(directory);
    return -1;
}

static int open_part(int root, const char *name, const char **why) {
    const char *unmade = make(root, name);
    int part = open_trusted(root, name, O_NOFOLLOW, why);
    *why = part < 0 && unmade ? unmade : *why; /* "read-only" says more than "not there" */
    return part;
}

static void open_all(struct cache_disk *disk, char *path, size_t existing, const char **why) {
    const char *unmade = make_all(path, existing);
    *why = NULL;
    int root = open_trusted(AT_FDCWD, path, 0, why); /* may be a link: its target is checked */
    if (root < 0) {
        *why = unmade ? unmade : *why;
        return;
    }
    disk->entries = open_part(root, "entries", why);
    if (disk->entries >= 0) {
        const char *optional = NULL; /* without these the cache is read-only, or lockless */
        disk->temporary = open_part(root, "temporary", &optional);
        disk->locks = open_part(root, "locks", &optional);
        disk->quarantine = open_part(root, "quarantine", &optional);
    }
    close(root);
}

void cache_disk_open(struct cache_disk *disk, const struct cache_options *options) {
    *disk = (struct cache_disk){
        .entries = -1,
        .temporary = -1,
        .locks = -1,
        .quarantine = -1,
        .limit = options->limit ? options->limit : limit_default,
        .lock_wait_ms = options->lock_wait_ms ? options->lock_wait_ms : lock_wait_default,
        .log = options->log,
        .log_context = options->log_context,
    };
    atomic_store(&disk->published, disk->limit); /* so that the first publish checks the limit */
    if (options->disabled)
        return;
    const char *why;
    size_t existing;
    char *path = NULL;
    if (getauxval(AT_SECURE))
        why = "the process is set-user-ID";
    else if ((path = find(options->dir, &existing, &why)))
        open_all(disk, path, existing, &why);
    if (disk->entries >= 0) {
        disk->path = path;
        return;
    }
    cache_warn(disk, CACHE_WARN_ALWAYS,
               "no usable directory%s%s: %s; compiled kernels are kept in memory only. "
               "Set ATTILE_CACHE_DIR to a directory that only you can write to.",
               path ? " at " : "", path ? path : "", why);
    free(path);
}

void cache_disk_close(struct cache_disk *disk) {
    int descriptors[] = {disk->entries, disk->temporary, disk->locks, disk->quarantine};
    for (int i = 0; i < 4; i++)
        if (descriptors[i] >= 0)
            close(descriptors[i]);
    free(disk->path);
    disk->path = NULL;
}
