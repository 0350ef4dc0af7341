/* cache_file: one entry's file: read and check, publish, set aside. A reader sees a whole file or none, because a file
   enters entries/ only by rename. Each read nevertheless verifies that the file is whole and ours. */
#include "cache_disk.h"
#include "transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

static const int64_t size_limit = INT64_C(256) << 20; /* of one file; cubins are far smaller */
static const int64_t touch_seconds = 3600;            /* resolution of the time of last use */

/* Makes all checks on an open file, before and after reading its bytes. Returns null for a hit, otherwise why not; sets
   *found. */
static const char *load(int descriptor, const char *digest, const struct cache_key *key, struct cache_file *file,
                        struct stat *status, enum cache_found *found) {
    const char *why;
    *found = CACHE_MISS;
    if (fstat(descriptor, status) != 0)
        return "cannot be examined";
    *found = CACHE_DAMAGED;
    if (!S_ISREG(status->st_mode))
        return "not a regular file";
    if (!cache_trusted(status, &why))
        return why;
    if (status->st_size > size_limit)
        return "too large";
    file->size = (size_t)status->st_size;
    file->bytes = malloc(file->size + 1);
    int whole = file->bytes ? transfer_read(descriptor, file->bytes, file->size) : -1;
    if (whole < 0) {
        *found = CACHE_MISS;
        return "cannot be read";
    }
    if (!whole)
        return "changed while it was read";
    const char *damage = cache_entry_check(file->bytes, file->size, &file->parts);
    if (damage)
        return damage;
    if (memcmp(file->parts.digest, digest, CACHE_DIGEST) != 0)
        return "it is the entry of another key";
    if (key && !cache_key_same(key, file->parts.preimage, file->parts.preimage_size))
        return "it was made from other inputs";
    *found = CACHE_HIT;
    return NULL;
}

static void note_use(int descriptor, const struct stat *status) {
    int64_t age = (int64_t)time(NULL) - status->st_mtime;
    if (age > touch_seconds || age < 0)
        futimens(descriptor, NULL); /* has no effect if read-only: then nothing is evicted either */
}

enum cache_found cache_file_read(struct cache_disk *disk, const char *digest, const struct cache_key *key,
                                 struct cache_file *file) {
    *file = (struct cache_file){0};
    if (disk->entries < 0)
        return CACHE_MISS;
    /* O_NONBLOCK: a FIFO placed there must not hang us. */
    int descriptor = openat(disk->entries, digest, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0) {
        bool link = errno == ELOOP;
        file->damage = link ? "a symbolic link" : NULL;
        return link ? CACHE_DAMAGED : CACHE_MISS;
    }
    enum cache_found found;
    struct stat status;
    const char *why = load(descriptor, digest, key, file, &status, &found);
    if (found == CACHE_HIT && key)
        note_use(descriptor, &status);
    close(descriptor);
    if (found != CACHE_HIT) {
        free(file->bytes);
        *file = (struct cache_file){.damage = found == CACHE_DAMAGED ? why : NULL};
    }
    return found;
}

/* Makes a name of random digits, as many as a digest has. Without a random source O_EXCL still keeps two writers
   apart. */
static void random_name(char name[CACHE_DIGEST + 1]) {
    unsigned char bytes[CACHE_DIGEST / 2] = {0};
    if (getrandom(bytes, sizeof bytes, GRND_NONBLOCK) != sizeof bytes) {
        struct timespec now = {0};
        clock_gettime(CLOCK_REALTIME, &now);
        int64_t parts[2] = {getpid(), now.tv_sec * INT64_C(1000000000) + now.tv_nsec};
        memcpy(bytes, parts, sizeof bytes);
    }
    for (int i = 0; i < CACHE_DIGEST; i++)
        name[i] = "0123456789abcdef"[bytes[i / 2] >> 4 * (i % 2) & 15];
    name[CACHE_DIGEST] = '\0';
}

/* Returns null if published, otherwise which step failed; errno says why. */
static const char *write_file(struct cache_disk *disk, const char *digest, const char *bytes, size_t size) {
    char name[CACHE_DIGEST + 1];
    random_name(name);
    int file = openat(disk->temporary, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0)
        return "create a file";
    const char *failed = NULL;
    if (!transfer_write(file, bytes, size))
        failed = "write";
    else if (fsync(file) != 0) /* before the rename, otherwise a power cut could leave a name without its bytes */
        failed = "flush";
    int error = errno;
    if (close(file) != 0 && !failed)
        failed = "close", error = errno;
    if (!failed && renameat(disk->temporary, name, disk->entries, digest) != 0)
        failed = "rename", error = errno;
    if (failed)
        unlinkat(disk->temporary, name, 0);
    errno = error;
    return failed;
}

void cache_file_publish(struct cache_disk *disk, const struct cache_key *key, const struct cache_entry *entry) {
    if (disk->temporary < 0)
        return;
    size_t size;
    char *bytes = cache_entry_pack(key, entry, &size);
    if (!bytes)
        return;
    if (size > disk->limit / 2 || size > (uint64_t)size_limit) {
        cache_warn(disk, CACHE_WARN_WRITE, "an entry of %zu bytes is too large for a limit of %llu; not kept", size,
                   (unsigned long long)disk->limit);
    } else {
        const char *failed = write_file(disk, key->digest, bytes, size);
        if (failed)
            cache_warn(disk, CACHE_WARN_WRITE, "cannot %s in %s: %s; compiled again next time", failed, disk->path,
                       strerror(errno));
        else
            atomic_fetch_add(&disk->published, size);
    }
    free(bytes);
}

void cache_file_quarantine(struct cache_disk *disk, const char *digest, const char *why) {
    int moved = disk->quarantine < 0 ? -1 : renameat(disk->entries, digest, disk->quarantine, digest);
    if (moved == 0)
        utimensat(disk->quarantine, digest, NULL, AT_SYMLINK_NOFOLLOW); /* its week in quarantine starts now */
    else
        moved = unlinkat(disk->entries, digest, 0);
    if (moved == 0 || errno == ENOENT)
        cache_warn(disk, CACHE_WARN_ALWAYS, "%s/entries/%s is not usable: %s; set aside and built again", disk->path,
                   digest, why);
    else
        cache_warn(disk, CACHE_WARN_MOVE, "%s/entries/%s is not usable: %s; it cannot be removed: %s", disk->path,
                   digest, why, strerror(errno));
}
