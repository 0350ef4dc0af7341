/* cache_sweep: keeps a cache directory within bounds. Deletes only files that have not changed since they were listed,
   and counts a file that is already gone as removed: other processes do the same work at the same time. */
#include "cache_disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static bool add(struct cache_listing *listing, const char *name, const struct stat *status) {
    if (listing->count == listing->room) {
        size_t room = listing->room ? listing->room * 2 : 64;
        struct cache_listed *items = realloc(listing->items, room * sizeof *items);
        if (!items)
            return false;
        listing->items = items;
        listing->room = room;
    }
    struct cache_listed *item = &listing->items[listing->count++];
    memcpy(item->name, name, strlen(name) + 1);
    item->status = *status;
    listing->bytes += (uint64_t)status->st_size;
    return true;
}

int cache_list(int directory, struct cache_listing *listing) {
    *listing = (struct cache_listing){0};
    if (directory < 0)
        return 0;
    int again = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* for a read position of our own */
    DIR *stream = again < 0 ? NULL : fdopendir(again);
    int error = errno;
    if (!stream) {
        if (again >= 0)
            close(again);
        return error;
    }
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(stream);
        error = errno;
        if (!entry)
            break;
        struct stat status;
        if (strlen(entry->d_name) != CACHE_DIGEST || strspn(entry->d_name, "0123456789abcdef") != CACHE_DIGEST ||
            fstatat(directory, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (!add(listing, entry->d_name, &status)) {
            error = ENOMEM;
            break;
        }
    }
    closedir(stream);
    return error;
}

int cache_by_name(const void *a, const void *b) {
    return strcmp(((const struct cache_listed *)a)->name, ((const struct cache_listed *)b)->name);
}

static int by_use(const void *a, const void *b) {
    const struct timespec *x = &((const struct cache_listed *)a)->status.st_mtim,
                          *y = &((const struct cache_listed *)b)->status.st_mtim;
    if (x->tv_sec != y->tv_sec)
        return x->tv_sec < y->tv_sec ? -1 : 1;
    if (x->tv_nsec != y->tv_nsec)
        return x->tv_nsec < y->tv_nsec ? -1 : 1;
    return cache_by_name(a, b);
}

void cache_sort(struct cache_listing *listing, int (*order)(const void *, const void *)) {
    if (listing->count)
        qsort(listing->items, listing->count, sizeof *listing->items, order);
}

/* Removes a listed file unless it was used or replaced since. True if it is gone now. */
static bool drop(int directory, const struct cache_listed *item) {
    struct stat now;
    const struct stat *then = &item->status;
    if (fstatat(directory, item->name, &now, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT;
    if (now.st_ino != then->st_ino || now.st_size != then->st_size || now.st_mtim.tv_sec != then->st_mtim.tv_sec ||
        now.st_mtim.tv_nsec != then->st_mtim.tv_nsec) {
        errno = EBUSY;
        return false;
    }
    int flags = S_ISDIR(now.st_mode) ? AT_REMOVEDIR : 0;
    return unlinkat(directory, item->name, flags) == 0 || errno == ENOENT;
}

static bool drop_counted(int directory, const struct cache_listed *item, struct cache_tally *tally) {
    if (!tally->dry && !drop(directory, item)) {
        tally->error = errno == EBUSY ? tally->error : errno;
        return false;
    }
    tally->removed++;
    return true;
}

void cache_drop_old(int directory, int64_t seconds, struct cache_tally *tally) {
    struct cache_listing listing;
    int error = cache_list(directory, &listing);
    tally->error = error ? error : tally->error;
    int64_t now = (int64_t)time(NULL);
    for (size_t i = 0; i < listing.count; i++) {
        int64_t age = now - listing.items[i].status.st_mtime;
        if (age >= seconds || -age > CACHE_TEMPORARY)
            drop_counted(directory, &listing.items[i], tally);
    }
    free(listing.items);
}

void cache_drop_unused(int directory, uint64_t bytes, struct cache_tally *tally) {
    struct cache_listing listing;
    int error = cache_list(directory, &listing);
    tally->error = error ? error : tally->error;
    cache_sort(&listing, by_use);
    for (size_t i = 0; i < listing.count && listing.bytes > bytes; i++)
        if (drop_counted(directory, &listing.items[i], tally))
            listing.bytes -= (uint64_t)listing.items[i].status.st_size;
    free(listing.items);
}

void cache_sweep(struct cache_disk *disk) {
    struct cache_tally ignored = {0};
    cache_drop_old(disk->temporary, CACHE_TEMPORARY, &ignored);
    cache_drop_old(disk->quarantine, CACHE_QUARANTINE, &ignored);
}

/* A check costs a microsecond or two per entry, so it is made at a process's first publish and then once for each 1/64
   of the limit published: the directory holds at most the limit and 1/64 of it for each process. */
void cache_keep_limit(struct cache_disk *disk) {
    if (disk->temporary < 0 || atomic_load(&disk->published) < disk->limit / 64)
        return;
    atomic_store(&disk->published, 0);
    struct cache_listing listing;
    bool over = cache_list(disk->entries, &listing) == 0 && listing.bytes > disk->limit;
    free(listing.items);
    struct cache_tally ignored = {0};
    if (over) /* an eighth more than necessary, so that the next trim is not due at once */
        cache_drop_unused(disk->entries, disk->limit - disk->limit / 8, &ignored);
}
