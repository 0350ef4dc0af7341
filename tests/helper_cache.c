#include "helper_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

static const char *make_below(const char *parent) {
    static char paths[8][200];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/attile-test.XXXXXX", parent);
    return mkdtemp(path);
}

const char *scratch_make(void) { return make_below("/var/tmp"); }

const char *scratch_make_fast(void) {
    const char *path = make_below("/dev/shm");
    return path ? path : scratch_make();
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *ftw) {
    (void)status, (void)type, (void)ftw;
    return remove(path);
}

void scratch_remove(const char *directory) { nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

const char *scratch_path(const char *directory, const char *part, const char *name) {
    static _Thread_local char paths[8][400];
    static _Thread_local int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s/%s", directory, part, name);
    return path;
}

int scratch_count(const char *directory, const char *part) {
    DIR *stream = opendir(scratch_path(directory, part, ""));
    if (!stream)
        return -1;
    int count = 0;
    for (const struct dirent *entry; (entry = readdir(stream));)
        count += entry->d_name[0] != '.';
    closedir(stream);
    return count;
}

int scratch_damage(const char *directory, int number) {
    struct cache_key key;
    sample_key(number, &key);
    int file = open(scratch_path(directory, "entries", key.digest), O_RDWR);
    cache_key_free(&key);
    struct stat status;
    unsigned char byte;
    int done = -1;
    if (file >= 0 && fstat(file, &status) == 0 && pread(file, &byte, 1, status.st_size / 2) == 1) {
        byte ^= 1;
        done = pwrite(file, &byte, 1, status.st_size / 2) == 1 ? 0 : -1;
    }
    if (file >= 0)
        close(file);
    return done;
}

void sample_key(int number, struct cache_key *key) {
    *key = (struct cache_key){0};
    cache_key_add(key, "format", "1", 1);
    cache_key_add(key, "number", &number, sizeof number);
    cache_key_finish(key);
}

static void fill(int number, unsigned char *bytes, size_t size) {
    uint32_t state = (uint32_t)number * 2654435761u + 1;
    for (size_t i = 0; i < size; i++) {
        state = state * 1664525u + 1013904223u;
        bytes[i] = (unsigned char)(state >> 24);
    }
}

bool sample_entry(int number, size_t size, struct cache_entry *entry) {
    *entry = (struct cache_entry){.payload = malloc(size + 1), .meta = malloc(32), .payload_size = size};
    if (!entry->payload || !entry->meta) {
        cache_entry_free(entry);
        return false;
    }
    fill(number, entry->payload, size);
    entry->meta_size = (size_t)snprintf(entry->meta, 32, "sample %d", number);
    return true;
}

bool sample_equal(int number, size_t size, const struct cache_entry *entry) {
    struct cache_entry right;
    if (!sample_entry(number, size, &right))
        return false;
    bool equal = entry->payload_size == size && entry->meta_size == right.meta_size &&
                 memcmp(entry->payload, right.payload, size) == 0 &&
                 memcmp(entry->meta, right.meta, right.meta_size) == 0;
    cache_entry_free(&right);
    return equal;
}

void sample_seal(void *bytes, size_t size) {
    unsigned char *trailer = (unsigned char *)bytes + size - 16;
    XXH128_canonicalFromHash((XXH128_canonical_t *)trailer, XXH3_128bits(bytes, size - 16));
}

enum att_status sample_build(void *context, struct cache_entry *entry, struct failure *failure) {
    struct sample_build *sample = context;
    if (sample->calls)
        atomic_fetch_add(sample->calls, 1);
    if (sample->count_file && write(sample->count_file, "+", 1) != 1)
        return failure_set(failure, ATT_IO, "cannot count");
    if (sample->pause_us)
        usleep((useconds_t)sample->pause_us);
    if (sample->fails)
        return failure_set(failure, ATT_COMPILE_FAILED, "sample %d does not compile", sample->number);
    if (!sample_entry(sample->number, sample->size, entry))
        return failure_set(failure, ATT_OUT_OF_MEMORY, "no memory");
    return ATT_OK;
}

enum sample_result sample_get(struct cache *cache, struct sample_build *sample) {
    struct cache_key key;
    struct cache_entry entry;
    struct failure failure = {0};
    int hit;
    sample_key(sample->number, &key);
    enum att_status status = cache_get(cache, &key, sample_build, sample, &entry, &hit, &failure);
    enum sample_result result = status != ATT_OK                                      ? SAMPLE_FAILED
                                : !sample_equal(sample->number, sample->size, &entry) ? SAMPLE_WRONG
                                : hit                                                 ? SAMPLE_HIT
                                                                                      : SAMPLE_BUILT;
    cache_entry_free(&entry);
    failure_clear(&failure);
    cache_key_free(&key);
    return result;
}

void sample_log(void *context, enum att_log_level level, const char *message) {
    struct sample_log *log = context;
    (void)level;
    text_print(&log->text, "%s\n", message);
    log->count++;
}
