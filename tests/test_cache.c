/* One process and its cache: where the directory is and when it is refused, hits and repairs, bounds, threads. */
#include "helper_cache.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 3000, NOBODY = 65534 };

static const char *directory; /* the test's own */
static struct sample_log messages;

static void setup(void) {
    directory = scratch_make();
    cr_assert(directory);
    messages = (struct sample_log){0};
    unsetenv("ATTILE_CACHE_DIR");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
}

static void teardown(void) {
    scratch_remove(directory);
    text_free(&messages.text);
}

TestSuite(cache, .init = setup, .fini = teardown, .timeout = 120);

static struct cache *open_at(const char *path, uint64_t limit) {
    struct cache_options options = {.dir = path, .limit = limit, .log = sample_log, .log_context = &messages};
    struct cache *cache = cache_open(&options);
    cr_assert(cache);
    return cache;
}

static enum sample_result get(struct cache *cache, int number) {
    return sample_get(cache, &(struct sample_build){.number = number, .size = SIZE});
}

static enum sample_result get_at(const char *path, int number) {
    struct cache *cache = open_at(path, 0);
    enum sample_result result = get(cache, number);
    cache_close(cache);
    return result;
}

static const char *entry_path(int number) {
    struct cache_key key;
    sample_key(number, &key);
    const char *path = scratch_path(directory, "entries", key.digest);
    cache_key_free(&key);
    return path;
}

static bool logged(const char *words) {
    return strstr(text_string(&messages.text), words);
}

/* --- reading and writing --- */

Test(cache, keeps_what_was_built) {
    cr_expect_eq(get_at(directory, 1), SAMPLE_BUILT);
    cr_expect_eq(get_at(directory, 1), SAMPLE_HIT);
    cr_expect_eq(get_at(directory, 2), SAMPLE_BUILT);
    cr_expect_eq(scratch_count(directory, "entries"), 2);
    cr_expect_eq(scratch_count(directory, "temporary"), 0);
    cr_expect_eq(messages.count, 0, "%s", text_string(&messages.text));
}

Test(cache, makes_everything_private) {
    umask(0);
    cr_assert_eq(get_at(scratch_path(directory, "a/b", "c"), 1), SAMPLE_BUILT);
    static const char *const places[] = {
        "a", "a/b", "a/b/c", "a/b/c/entries", "a/b/c/temporary", "a/b/c/locks", "a/b/c/quarantine"};
    struct stat status;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        cr_assert_eq(stat(scratch_path(directory, places[i], ""), &status), 0, "%s", places[i]);
        cr_expect_eq(status.st_mode & 07777, 0700, "%s: %o", places[i], status.st_mode);
    }
    struct cache_key key;
    sample_key(1, &key);
    cr_assert_eq(stat(scratch_path(directory, "a/b/c/entries", key.digest), &status), 0);
    cr_expect_eq(status.st_mode & 07777, 0600);
    cache_key_free(&key);
}

Test(cache, a_failed_build_is_reported_and_not_kept) {
    struct cache *cache = open_at(directory, 0);
    struct cache_key key;
    struct cache_entry entry;
    struct failure failure = {0};
    struct sample_build sample = {.number = 1, .size = SIZE, .fails = true};
    sample_key(1, &key);
    cr_expect_eq(cache_get(cache, &key, sample_build, &sample, &entry, NULL, &failure), ATT_COMPILE_FAILED);
    cr_expect_str_eq(text_string(&failure.text), "sample 1 does not compile");
    cr_expect_null(entry.payload);
    cr_expect_eq(get(cache, 1), SAMPLE_BUILT);
    failure_clear(&failure);
    cache_key_free(&key);
    cache_close(cache);
}

/* --- damage --- */

static void make_symlink(const char *path) {
    cr_assert_eq(rename(path, scratch_path(directory, "", "target")), 0);
    cr_assert_eq(symlink("../target", path), 0);
}
static void make_group_writable(const char *path) {
    cr_assert_eq(chmod(path, 0620), 0);
}
static void make_foreign(const char *path) {
    cr_assert_eq(chown(path, NOBODY, NOBODY), 0);
}
static void make_empty(const char *path) {
    cr_assert_eq(truncate(path, 0), 0);
}
static void make_longer(const char *path) {
    cr_assert_eq(truncate(path, 100000), 0);
}
static void make_huge(const char *path) {
    cr_assert_eq(truncate(path, INT64_C(1) << 40), 0);
}
static void make_directory(const char *path) {
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(mkdir(path, 0700), 0);
}
static void make_fifo(const char *path) {
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(mkfifo(path, 0600), 0);
}
static void make_another(const char *path) {
    cr_assert_eq(get_at(directory, 2), SAMPLE_BUILT);
    cr_assert_eq(rename(entry_path(2), path), 0);
}
static void flip_bit(const char *path) {
    (void)path;
    cr_assert_eq(scratch_damage(directory, 1), 0);
}

Test(cache, a_damaged_entry_is_set_aside_and_built_anew) {
    static const struct {
        void (*damage)(const char *path);
        const char *message;
        bool needs_root;
    } cases[] = {
        {flip_bit, "checksum does not match", false},
        {make_empty, "too short", false},
        {make_longer, "checksum does not match", false},
        {make_huge, "too large", false},
        {make_symlink, "a symbolic link", false},
        {make_directory, "not a regular file", false},
        {make_fifo, "not a regular file", false},
        {make_group_writable, "others may write to it", false},
        {make_another, "it is the entry of another key", false},
        {make_foreign, "it belongs to another user", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (cases[i].needs_root && geteuid() != 0)
            continue;
        teardown(), setup();
        cr_assert_eq(get_at(directory, 1), SAMPLE_BUILT);
        cases[i].damage(entry_path(1));
        cr_expect_eq(get_at(directory, 1), SAMPLE_BUILT, "case %zu was used", i);
        cr_expect_eq(messages.count, 1, "case %zu: %s", i, text_string(&messages.text));
        cr_expect(logged(cases[i].message), "case %zu: %s", i, text_string(&messages.text));
        cr_expect_eq(scratch_count(directory, "quarantine"), 1, "case %zu", i);
        cr_expect_eq(get_at(directory, 1), SAMPLE_HIT, "case %zu does not heal", i);
    }
}

/* The digest is right, but the preimage is not: what a collision would look like. */
Test(cache, an_entry_made_from_other_inputs_is_not_used) {
    struct cache_key key, other;
    struct cache_entry entry;
    size_t size;
    sample_key(1, &key);
    sample_key(2, &other);
    memcpy(other.digest, key.digest, sizeof key.digest);
    cr_assert(sample_entry(2, SIZE, &entry));
    void *bytes = cache_entry_pack(&other, &entry, &size);
    cr_assert(bytes);
    cr_assert_eq(get_at(directory, 1), SAMPLE_BUILT);
    int file = open(entry_path(1), O_WRONLY | O_TRUNC);
    cr_assert_eq(write(file, bytes, size), (ssize_t)size);
    close(file);
    cr_expect_eq(get_at(directory, 1), SAMPLE_BUILT);
    cr_expect(logged("made from other inputs"), "%s", text_string(&messages.text));
    free(bytes);
    cache_entry_free(&entry);
    cache_key_free(&key);
    cache_key_free(&other);
}

Test(cache, an_entry_that_the_device_refused_is_built_anew) {
    struct cache *cache = open_at(directory, 0);
    struct cache_key key;
    sample_key(1, &key);
    cr_assert_eq(get(cache, 1), SAMPLE_BUILT);
    cache_reject(cache, &key);
    cr_expect_eq(scratch_count(directory, "quarantine"), 1);
    cr_expect_eq(get(cache, 1), SAMPLE_BUILT);
    cr_expect_eq(get(cache, 1), SAMPLE_HIT);
    cache_key_free(&key);
    cache_close(cache);
}
