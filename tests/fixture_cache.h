/* fixture_cache: the common setup of the Criterion tests of the cache: a directory and a log for each test, an
   environment without cache settings, and short helpers that open a cache and ask for keys. Each program
   includes it once. */
#ifndef ATTILE_FIXTURE_CACHE_H
#define ATTILE_FIXTURE_CACHE_H

#include "helper_cache.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 3000, NOBODY = 65534 };

static const char *directory; /* the test's own */
static struct sample_log messages;

static inline void setup(void) {
    directory = scratch_make();
    cr_assert(directory);
    messages = (struct sample_log){0};
    unsetenv("ATTILE_CACHE_DIR");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
}

static inline void teardown(void) {
    scratch_remove(directory);
    text_free(&messages.text);
}

static inline struct cache *open_at(const char *path, uint64_t limit) {
    struct cache_options options = {.dir = path, .limit = limit, .log = sample_log, .log_context = &messages};
    struct cache *cache = cache_open(&options);
    cr_assert(cache);
    return cache;
}

static inline enum sample_result get(struct cache *cache, int number) {
    return sample_get(cache, &(struct sample_build){.number = number, .size = SIZE});
}

static inline enum sample_result get_at(const char *path, int number) {
    struct cache *cache = open_at(path, 0);
    enum sample_result result = get(cache, number);
    cache_close(cache);
    return result;
}

static inline const char *entry_path(int number) {
    struct cache_key key;
    sample_key(number, &key);
    const char *path = scratch_path(directory, "entries", key.digest);
    cache_key_free(&key);
    return path;
}

static inline bool logged(const char *words) { return strstr(text_string(&messages.text), words); }

/* Puts entry 2 where entry 1 belongs, with correct digest and checksum but the preimage of key 2. This is what a digest
   collision would look like. */
static inline void forge_entry(void) {
    struct cache_key key, other;
    struct cache_entry entry;
    size_t size;
    cr_assert_eq(get_at(directory, 1), SAMPLE_BUILT);
    sample_key(1, &key);
    sample_key(2, &other);
    memcpy(other.digest, key.digest, sizeof key.digest);
    cr_assert(sample_entry(2, SIZE, &entry));
    void *bytes = cache_entry_pack(&other, &entry, &size);
    cr_assert(bytes);
    int file = open(entry_path(1), O_WRONLY | O_TRUNC);
    cr_assert_eq(write(file, bytes, size), (ssize_t)size);
    close(file);
    free(bytes);
    cache_entry_free(&entry);
    cache_key_free(&key);
    cache_key_free(&other);
}

/* Root may write anywhere, so these tests temporarily become another user. */
static inline bool become_nobody(void) {
    if (geteuid() != 0)
        return true;
    static const char *const parts[] = {"", "entries", "temporary", "locks", "quarantine"};
    for (int i = 0; i < 5; i++)
        if (chown(scratch_path(directory, parts[i], ""), NOBODY, NOBODY) != 0 && i == 0)
            return false;
    return seteuid(NOBODY) == 0 && access(directory, F_OK) == 0;
}

static inline void become_self(void) { cr_assert_eq(seteuid(getuid()), 0); }

#endif
