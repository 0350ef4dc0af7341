/* cache_admin: looks at a whole cache directory: list, count, bound. Deletes only what still is what was listed, and
   takes a file that is already gone for done: other processes do the same work at the same time. */
#include "cache_disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* No writer takes this long; and a clock that jumped may cost a publish, never more. */
static const int64_t temporary_seconds = 600;
static const int64_t quarantine_seconds = 7 * 24 * 3600;

struct item {
    char name[CACHE_DIGEST + 1];
    struct stat status;
};
struct listing {
    struct item *items; /* owned */
    size_t count, room;
    uint64_t bytes;
};

static bool add(struct listing *listing, const char *name, const struct stat *status) {
    if (listing->count == listing->room) {
        size_t room = listing->room ? listing->room * 2 : 64;
        struct item *items = realloc(listing->items, room * sizeof *items);
        if (!items)
            return false;
        listing->items = items;
        listing->room = room;
    }
    struct item *item = &listing->items[listing->count++];
    memcpy(item->name, name, strlen(name) + 1);
    item->status = *status;
    listing->bytes += (uint64_t)status->st_size;
    return true;
}

/* List the files whose names are as many hexadecimal digits as a digest: what we wrote, and nothing else. 0, or the errno that
   cut the list short. The caller frees items either way. */
static int list(int directory, struct listing *listing) {
    *listing = (struct listing){0};
    if (directory < 0)
        return 0;
    int again = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* a position of our own */
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

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct item *)a)->name, ((const struct item *)b)->name);
}

static int by_use(const void *a, const void *b) {
    const struct timespec *x = &((const struct item *)a)->status.st_mtim,
                          *y = &((const struct item *)b)->status.st_mtim;
    if (x->tv_sec != y->tv_sec)
        return x->tv_sec < y->tv_sec ? -1 : 1;
    if (x->tv_nsec != y->tv_nsec)
        return x->tv_nsec < y->tv_nsec ? -1 : 1;
    return by_name(a, b);
}

static void sort(struct listing *listing, int (*order)(const void *, const void *)) {
    if (listing->count)
        qsort(listing->items, listing->count, sizeof *listing->items, order);
}

/* Remove a listed file unless it was used or replaced since. True when it is gone now. */
static bool drop(int directory, const struct item *item) {
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

/* What a trim did. */
struct tally {
    uint64_t removed; /* files */
    int error;        /* errno of the last file that would not go; 0 = none. A file just used does not count. */
    bool dry;
};

static bool drop_counted(int directory, const struct item *item, struct tally *tally) {
    if (!tally->dry && !drop(directory, item)) {
        tally->error = errno == EBUSY ? tally->error : errno;
        return false;
    }
    tally->removed++;
    return true;
}

static void drop_old(int directory, int64_t seconds, struct tally *tally) {
    struct listing listing;
    int error = list(directory, &listing);
    tally->error = error ? error : tally->error;
    int64_t now = (int64_t)time(NULL);
    for (size_t i = 0; i < listing.count; i++) {
        int64_t age = now - listing.items[i].status.st_mtime;
        if (age >= seconds || -age > temporary_seconds)
            drop_counted(directory, &listing.items[i], tally);
    }
    free(listing.items);
}

static void drop_unused(int directory, uint64_t bytes, struct tally *tally) {
    struct listing listing;
    int error = list(directory, &listing);
    tally->error = error ? error : tally->error;
    sort(&listing, by_use);
    for (size_t i = 0; i < listing.count && listing.bytes > bytes; i++)
        if (drop_counted(directory, &listing.items[i], tally))
            listing.bytes -= (uint64_t)listing.items[i].status.st_size;
    free(listing.items);
}

void cache_sweep(struct cache_disk *disk) {
    struct tally ignored = {0};
    drop_old(disk->temporary, temporary_seconds, &ignored);
    drop_old(disk->quarantine, quarantine_seconds, &ignored);
}

/* Looking costs a microsecond or two an entry, so it is done at a process's first publish and then once for each 1/64
   of the limit published: the directory holds at most the limit and 1/64 of it for each process. */
void cache_keep_limit(struct cache_disk *disk) {
    if (disk->temporary < 0 || atomic_load(&disk->published) < disk->limit / 64)
        return;
    atomic_store(&disk->published, 0);
    struct listing listing;
    bool over = list(disk->entries, &listing) == 0 && listing.bytes > disk->limit;
    free(listing.items);
    struct tally ignored = {0};
    if (over) /* an eighth more than need be, so that it is not needed again at once */
        drop_unused(disk->entries, disk->limit - disk->limit / 8, &ignored);
}

static enum att_status cannot(struct cache_disk *disk, const char *what, int error, struct failure *failure) {
    return failure_set(failure, error == ENOMEM ? ATT_OUT_OF_MEMORY : ATT_IO, "Cannot %s the cache directory %s: %s.",
                       what, disk->path, strerror(error));
}

enum att_status cache_trim(struct cache *cache, uint64_t bytes, int quarantine, int dry_run, uint64_t *removed,
                           struct failure *failure) {
    struct cache_disk *disk = cache_disk_of(cache);
    struct tally tally = {.dry = dry_run};
    drop_unused(disk->entries, bytes, &tally);
    drop_old(disk->temporary, temporary_seconds, &tally);
    if (quarantine)
        drop_old(disk->quarantine, INT64_MIN, &tally);
    *removed = tally.removed;
    return tally.error ? cannot(disk, "remove everything from", tally.error, failure) : ATT_OK;
}

enum att_status cache_stat(struct cache *cache, struct cache_stat *stat, struct failure *failure) {
    struct cache_disk *disk = cache_disk_of(cache);
    struct listing entries, quarantined, temporary;
    *stat = (struct cache_stat){.limit = disk->limit};
    int errors[] = {list(disk->entries, &entries), list(disk->quarantine, &quarantined),
                    list(disk->temporary, &temporary)};
    int error = errors[0] ? errors[0] : errors[1] ? errors[1] : errors[2];
    stat->entries = entries.count;
    stat->bytes = entries.bytes;
    stat->quarantined = quarantined.count;
    stat->temporary = temporary.count;
    free(entries.items);
    free(quarantined.items);
    free(temporary.items);
    return error ? cannot(disk, "list", error, failure) : ATT_OK;
}

/* Read one entry for a visitor. False = gone since it was listed. */
static bool describe(struct cache_disk *disk, const struct item *listed, int verify, struct cache_file *file,
                     struct cache_item *item) {
    *item = (struct cache_item){.size = (uint64_t)listed->status.st_size, .last_used = listed->status.st_mtime};
    memcpy(item->digest, listed->name, sizeof item->digest);
    enum cache_found found = cache_file_read(disk, listed->name, NULL, file);
    if (found == CACHE_MISS && errno == ENOENT)
        return false;
    item->damage = found == CACHE_MISS ? "cannot be read" : file->damage;
    if (found != CACHE_HIT)
        return true;
    item->meta = file->parts.meta;
    item->meta_size = file->parts.meta_size;
    text_append(&item->preimage, file->parts.preimage, file->parts.preimage_size);
    char digest[CACHE_DIGEST + 1];
    if (verify) {
        cache_digest(file->parts.preimage, file->parts.preimage_size, digest);
        item->damage = strcmp(digest, item->digest) == 0 ? NULL : "digest is not the preimage's";
    }
    return true;
}

enum att_status cache_visit(struct cache *cache, int verify, int (*visit)(void *context, const struct cache_item *item),
                            void *context, struct failure *failure) {
    struct cache_disk *disk = cache_disk_of(cache);
    struct listing listing;
    int error = list(disk->entries, &listing);
    enum att_status status = error ? cannot(disk, "list", error, failure) : ATT_OK;
    sort(&listing, by_name);
    int stop = 0;
    for (size_t i = 0; status == ATT_OK && !stop && i < listing.count; i++) {
        struct cache_file file;
        struct cache_item item;
        if (!describe(disk, &listing.items[i], verify, &file, &item))
            continue;
        stop = item.preimage.failed ? 1 : visit(context, &item);
        if (item.preimage.failed)
            status = cannot(disk, "list", ENOMEM, failure);
        text_free(&item.preimage);
        free(file.bytes);
    }
    free(listing.items);
    return status;
}
