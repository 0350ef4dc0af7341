/* One process and its cache: where the directory is and when it is refused, hits and repairs, bounds, threads. */
#include "helper_cache.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
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

static bool logged(const char *words) { return strstr(text_string(&messages.text), words); }

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
static void make_group_writable(const char *path) { cr_assert_eq(chmod(path, 0620), 0); }
static void make_foreign(const char *path) { cr_assert_eq(chown(path, NOBODY, NOBODY), 0); }
static void make_empty(const char *path) { cr_assert_eq(truncate(path, 0), 0); }
static void make_longer(const char *path) { cr_assert_eq(truncate(path, 100000), 0); }
static void make_huge(const char *path) { cr_assert_eq(truncate(path, INT64_C(1) << 40), 0); }
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

/* --- directories --- */

Test(cache, finds_its_directory) {
    char base[200], attile[220], xdg[220], home[220], missing[220], file[220];
    snprintf(base, sizeof base, "%s", directory);
    snprintf(attile, sizeof attile, "%s/own/cache", base);
    snprintf(xdg, sizeof xdg, "%s/xdg", base);
    snprintf(home, sizeof home, "%s/home", base);
    snprintf(missing, sizeof missing, "%s/missing", base);
    snprintf(file, sizeof file, "%s/file", base);
    cr_assert_eq(mkdir(home, 0700), 0);
    cr_assert_eq(close(open(file, O_CREAT | O_WRONLY, 0600)), 0);
    const struct {
        const char *attile, *xdg, *home;
        const char *base, *below; /* the directory expected; null = memory only */
        const char *message;
    } cases[] = {
        {attile, xdg, home, attile, "", NULL},
        {NULL, xdg, home, xdg, "/attile", NULL},
        {"", xdg, home, xdg, "/attile", NULL},
        {NULL, NULL, home, home, "/.cache/attile", NULL},
        {NULL, "", home, home, "/.cache/attile", NULL},
        {NULL, "relative", home, home, "/.cache/attile", NULL},
        {"relative", xdg, home, NULL, "", "ATTILE_CACHE_DIR is not an absolute path"},
        {NULL, NULL, NULL, NULL, "", "none of ATTILE_CACHE_DIR, XDG_CACHE_HOME and HOME"},
        {NULL, NULL, "relative", NULL, "", "none of ATTILE_CACHE_DIR, XDG_CACHE_HOME and HOME"},
        {NULL, NULL, missing, NULL, "", "No such file or directory"},
        {NULL, NULL, file, NULL, "", "Not a directory"},
        {file, xdg, home, NULL, "", "Not a directory"},
        {"/dev/null/cache", NULL, NULL, NULL, "", "Not a directory"},
        {"/tmp", xdg, home, NULL, "", "others may write to it"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const names[] = {"ATTILE_CACHE_DIR", "XDG_CACHE_HOME", "HOME"};
        const char *const values[] = {cases[i].attile, cases[i].xdg, cases[i].home};
        for (int j = 0; j < 3; j++)
            cr_assert_eq(values[j] ? setenv(names[j], values[j], 1) : unsetenv(names[j]), 0);
        text_free(&messages.text);
        messages.count = 0;
        struct cache *cache = open_at(NULL, 0);
        char expected[300];
        snprintf(expected, sizeof expected, "%s%s", cases[i].base ? cases[i].base : "", cases[i].below);
        cr_expect_str_eq(cache_dir(cache) ? cache_dir(cache) : "", expected, "case %zu", i);
        cr_expect_eq(get(cache, 1) == SAMPLE_FAILED, 0);
        cr_expect_neq(get(cache, 1), SAMPLE_WRONG);
        cr_expect_eq(messages.count, cases[i].message ? 1 : 0, "case %zu: %s", i, text_string(&messages.text));
        if (cases[i].message)
            cr_expect(logged(cases[i].message), "case %zu: %s", i, text_string(&messages.text));
        cache_close(cache);
    }
    cr_expect_neq(access(missing, F_OK), 0, "a missing HOME was made");
}

Test(cache, can_be_switched_off) {
    struct cache_options options = {.dir = directory, .disabled = 1, .log = sample_log, .log_context = &messages};
    struct cache *cache = cache_open(&options);
    cr_assert(cache);
    cr_expect_null(cache_dir(cache));
    cr_expect_eq(get(cache, 1), SAMPLE_BUILT);
    cr_expect_eq(get(cache, 1), SAMPLE_BUILT);
    cr_expect_eq(messages.count, 0);
    cr_expect_eq(scratch_count(directory, ""), 0);
    cache_close(cache);
}

Test(cache, refuses_directories_that_others_can_write) {
    static const char *const parts[] = {"", "entries"};
    for (int i = 0; i < 2; i++) {
        teardown(), setup();
        cr_assert_eq(get_at(directory, 1), SAMPLE_BUILT);
        cr_assert_eq(chmod(scratch_path(directory, parts[i], ""), 0770), 0);
        cr_expect_eq(get_at(directory, 1), SAMPLE_BUILT, "%s was trusted", parts[i]);
        cr_expect(logged("others may write to it"), "%s", text_string(&messages.text));
        if (geteuid() != 0)
            continue;
        teardown(), setup();
        cr_assert_eq(get_at(directory, 1), SAMPLE_BUILT);
        cr_assert_eq(chown(scratch_path(directory, parts[i], ""), NOBODY, NOBODY), 0);
        cr_expect_eq(get_at(directory, 1), SAMPLE_BUILT, "%s of another user was trusted", parts[i]);
        cr_expect(logged("it belongs to another user"), "%s", text_string(&messages.text));
    }
}

Test(cache, a_linked_part_is_refused_and_a_linked_directory_is_not) {
    char real[300], link[300];
    snprintf(real, sizeof real, "%s/real", directory);
    snprintf(link, sizeof link, "%s/link", directory);
    cr_assert_eq(symlink("real", link), 0);
    cr_assert_eq(get_at(real, 1), SAMPLE_BUILT);
    cr_expect_eq(get_at(link, 1), SAMPLE_HIT, "people link their cache to another disk");
    cr_assert_eq(rename(scratch_path(real, "entries", ""), scratch_path(real, "moved", "")), 0);
    cr_assert_eq(symlink("moved", scratch_path(directory, "real", "entries")), 0);
    cr_expect_eq(get_at(real, 1), SAMPLE_BUILT);
    cr_expect_eq(messages.count, 1);
}

/* Root may write anywhere, so these tests become another user for a while. */
static bool become_nobody(void) {
    if (geteuid() != 0)
        return true;
    static const char *const parts[] = {"", "entries", "temporary", "locks", "quarantine"};
    for (int i = 0; i < 5; i++)
        if (chown(scratch_path(directory, parts[i], ""), NOBODY, NOBODY) != 0 && i == 0)
            return false;
    return seteuid(NOBODY) == 0 && access(directory, F_OK) == 0;
}

static void become_self(void) { cr_assert_eq(seteuid(getuid()), 0); }

Test(cache, a_read_only_directory_is_memory_only_with_one_warning) {
    cr_assert(become_nobody());
    cr_assert_eq(chmod(directory, 0500), 0);
    struct cache *cache = open_at(directory, 0);
    cr_expect_null(cache_dir(cache));
    cr_expect_eq(get(cache, 1), SAMPLE_BUILT);
    cr_expect_eq(get(cache, 1), SAMPLE_BUILT);
    cr_expect_eq(messages.count, 1, "%s", text_string(&messages.text));
    cache_close(cache);
    cr_assert_eq(chmod(directory, 0700), 0);
    become_self();
}

Test(cache, a_read_only_cache_still_hits) {
    static const char *const parts[] = {"", "entries", "temporary", "locks", "quarantine"};
    cr_assert(become_nobody());
    cr_assert_eq(get_at(directory, 1), SAMPLE_BUILT);
    cr_assert_eq(get_at(directory, 2), SAMPLE_BUILT);
    cr_assert_eq(scratch_damage(directory, 2), 0);
    for (int i = 0; i < 5; i++)
        cr_assert_eq(chmod(scratch_path(directory, parts[i], ""), 0500), 0);
    struct cache *cache = open_at(directory, 0);
    cr_expect_eq(get(cache, 1), SAMPLE_HIT);
    for (int round = 0; round < 3; round++) {
        cr_expect_eq(get(cache, 2), SAMPLE_BUILT, "damaged, and cannot be moved");
        cr_expect_eq(get(cache, 3), SAMPLE_BUILT, "cannot be kept");
    }
    cr_expect_eq(messages.count, 2, "one about moving and one about writing: %s", text_string(&messages.text));
    cache_close(cache);
    for (int i = 0; i < 5; i++)
        cr_assert_eq(chmod(scratch_path(directory, parts[i], ""), 0700), 0);
    become_self();
}

Test(cache, roots_cache_serves_other_users) {
    if (geteuid() != 0)
        cr_skip("only root can make a cache of root's");
    cr_assert_eq(get_at(directory, 1), SAMPLE_BUILT);
    cr_assert_eq(chmod(directory, 0755), 0);
    cr_assert_eq(chmod(scratch_path(directory, "entries", ""), 0755), 0);
    cr_assert_eq(chmod(entry_path(1), 0644), 0);
    cr_assert_eq(seteuid(NOBODY), 0);
    cr_expect_eq(get_at(directory, 1), SAMPLE_HIT);
    cr_expect_eq(get_at(directory, 2), SAMPLE_BUILT);
    become_self();
}

Test(cache, a_full_disk_costs_compiles_and_heals) {
    if (geteuid() != 0 || mount("tmpfs", directory, "tmpfs", 0, "size=64k,mode=700") != 0)
        cr_skip("a small tmpfs cannot be mounted here");
    struct cache *cache = open_at(directory, 0);
    for (int number = 0; number < 40; number++)
        cr_expect_eq(get(cache, number), SAMPLE_BUILT, "%d", number);
    cr_expect_eq(messages.count, 1, "%s", text_string(&messages.text));
    cr_expect(logged("No space left on device"), "%s", text_string(&messages.text));
    int kept = scratch_count(directory, "entries");
    cr_expect(kept > 5 && kept < 40, "%d", kept);
    cr_expect_eq(scratch_count(directory, "temporary"), 0, "what could not be written was left behind");
    for (int number = 0; number < 40; number++)
        cr_expect_neq(get(cache, number), SAMPLE_WRONG, "%d", number);
    uint64_t removed;
    struct failure failure = {0};
    cr_expect_eq(cache_trim(cache, 0, 1, 0, &removed, &failure), ATT_OK);
    cr_expect_eq(get(cache, 39), SAMPLE_BUILT);
    cr_expect_eq(get(cache, 39), SAMPLE_HIT, "not healed though there is room again");
    cache_close(cache);
    cr_expect_eq(umount(directory), 0);
}

/* --- bounds --- */

static void set_age(const char *path, int64_t seconds) {
    struct timespec times[2] = {{.tv_sec = time(NULL) - seconds}, {.tv_sec = time(NULL) - seconds}};
    cr_assert_eq(utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW), 0, "%s", path);
}

static int64_t age_of(const char *path) {
    struct stat status;
    cr_assert_eq(stat(path, &status), 0);
    return time(NULL) - status.st_mtime;
}

static struct cache_stat stat_of(struct cache *cache) {
    struct cache_stat stat;
    struct failure failure = {0};
    cr_assert_eq(cache_stat(cache, &stat, &failure), ATT_OK, "%s", text_string(&failure.text));
    return stat;
}

Test(cache, notes_a_use_at_most_once_an_hour) {
    cr_assert_eq(get_at(directory, 1), SAMPLE_BUILT);
    static const struct {
        int64_t before;
        bool noted;
    } cases[] = {{60, false}, {1800, false}, {7200, true}, {864000, true}, {-7200, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        set_age(entry_path(1), cases[i].before);
        cr_assert_eq(get_at(directory, 1), SAMPLE_HIT);
        int64_t age = age_of(entry_path(1));
        cr_expect_eq(age >= 0 && age < 30, cases[i].noted, "case %zu: %lld", i, (long long)age);
    }
}

Test(cache, stays_within_its_limit) {
    enum { LIMIT = 200 * 1024 };
    struct cache *cache = open_at(directory, LIMIT);
    for (int number = 0; number < 300; number++) {
        cr_assert_eq(get(cache, number), SAMPLE_BUILT);
        struct cache_stat stat = stat_of(cache);
        cr_assert_leq(stat.bytes, LIMIT + LIMIT / 64, "after %d", number);
        cr_assert(number < 60 || stat.bytes > LIMIT / 2, "too much was removed after %d", number);
    }
    cr_expect_eq(get(cache, 299), SAMPLE_HIT, "the newest is kept");
    cache_close(cache);
}

Test(cache, evicts_what_was_least_recently_used) {
    for (int number = 0; number < 10; number++) {
        cr_assert_eq(get_at(directory, number), SAMPLE_BUILT);
        set_age(entry_path(number), 100000 - number * 1000);
    }
    cr_assert_eq(get_at(directory, 0), SAMPLE_HIT); /* the oldest, but in use */
    struct cache *cache = open_at(directory, 0);
    uint64_t each = stat_of(cache).bytes / 10;
    cache_close(cache);
    cache = open_at(directory, each * 10 + each / 2); /* 11 entries are too many; 9 are seven eighths */
    cr_assert_eq(get(cache, 10), SAMPLE_BUILT);
    cache_close(cache);
    for (int number = 0; number <= 10; number++)
        cr_expect_eq(access(entry_path(number), F_OK) == 0, number != 1 && number != 2, "%d", number);
}

Test(cache, keeps_nothing_larger_than_half_of_its_limit) {
    struct cache *cache = open_at(directory, SIZE);
    cr_expect_eq(get(cache, 1), SAMPLE_BUILT);
    cr_expect_eq(get(cache, 1), SAMPLE_BUILT);
    cr_expect_eq(messages.count, 1);
    cr_expect(logged("too large"), "%s", text_string(&messages.text));
    cache_close(cache);
}

static void make_file(const char *part, const char *name, int64_t age) {
    const char *path = scratch_path(directory, part, name);
    cr_assert_eq(close(open(path, O_CREAT | O_EXCL | O_WRONLY, 0600)), 0, "%s", path);
    set_age(path, age);
}

static const char old_name[] = "00000000000000000000000000000001", new_name[] = "00000000000000000000000000000002";

Test(cache, removes_what_crashes_left_behind_on_open) {
    cr_assert_eq(get_at(directory, 1), SAMPLE_BUILT);
    make_file("temporary", old_name, 3600);
    make_file("temporary", new_name, 5);
    make_file("temporary", "not ours", 3600);
    struct cache *cache = open_at(directory, 0);
    cr_expect_eq(stat_of(cache).temporary, 1, "the old one is gone, the new one may be in use");
    cr_expect_eq(access(scratch_path(directory, "temporary", new_name), F_OK), 0);
    cr_expect_eq(access(scratch_path(directory, "temporary", "not ours"), F_OK), 0);
    cr_expect_eq(get(cache, 1), SAMPLE_HIT);
    cache_close(cache);
}

Test(cache, trims_to_a_size_and_only_counts_when_dry) {
    struct cache *cache = open_at(directory, 0);
    for (int number = 0; number < 10; number++) {
        cr_assert_eq(get(cache, number), SAMPLE_BUILT);
        set_age(entry_path(number), 1000 - number);
    }
    cr_assert_eq(scratch_damage(directory, 9), 0);
    cr_assert_eq(get(cache, 9), SAMPLE_BUILT); /* one in quarantine */
    make_file("temporary", old_name, 3600);
    make_file("temporary", new_name, 5);
    make_file("entries", "README", 5);
    uint64_t removed, bytes = stat_of(cache).bytes;
    struct failure failure = {0};
    const struct {
        uint64_t bytes;
        int quarantine, dry;
        uint64_t removed, entries, quarantined, temporary;
    } cases[] = {
        {bytes, 0, 1, 1, 10, 1, 2},    {bytes / 2, 0, 1, 6, 10, 1, 2}, {0, 1, 1, 12, 10, 1, 2},
        {bytes / 2, 0, 0, 6, 5, 1, 1}, {bytes / 2, 0, 0, 0, 5, 1, 1},  {0, 1, 0, 6, 0, 0, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_assert_eq(cache_trim(cache, cases[i].bytes, cases[i].quarantine, cases[i].dry, &removed, &failure), ATT_OK);
        struct cache_stat stat = stat_of(cache);
        cr_expect_eq(removed, cases[i].removed, "case %zu: %d", i, (int)removed);
        cr_expect_eq(stat.entries, cases[i].entries, "case %zu: %d", i, (int)stat.entries);
        cr_expect_eq(stat.quarantined, cases[i].quarantined, "case %zu: %d", i, (int)stat.quarantined);
        cr_expect_eq(stat.temporary, cases[i].temporary, "case %zu: %d", i, (int)stat.temporary);
        if (i == 3)
            cr_expect_eq(get(cache, 9), SAMPLE_HIT, "the newest is kept");
    }
    cr_expect_eq(access(scratch_path(directory, "entries", "README"), F_OK), 0, "a foreign file was removed");
    cache_close(cache);
}

Test(cache, says_when_something_cannot_be_removed) {
    cr_assert(become_nobody());
    struct cache *cache = open_at(directory, 0);
    struct failure failure = {0};
    uint64_t removed;
    cr_assert_eq(get(cache, 1), SAMPLE_BUILT);
    cr_assert_eq(chmod(scratch_path(directory, "entries", ""), 0500), 0);
    cr_expect_eq(cache_trim(cache, 0, 0, 0, &removed, &failure), ATT_IO);
    cr_expect_eq(removed, 0);
    cr_expect(strstr(text_string(&failure.text), directory) && strstr(text_string(&failure.text), "Permission denied"),
              "%s", text_string(&failure.text));
    cr_assert_eq(chmod(scratch_path(directory, "entries", ""), 0700), 0);
    failure_clear(&failure);
    cache_close(cache);
    become_self();
}

/* --- visiting --- */

struct seen {
    int count, stop_after;
    char last[65];
    bool ordered, whole;
    char damage[100];
};

static int see(void *context, const struct cache_item *item) {
    struct seen *seen = context;
    seen->ordered &= strcmp(seen->last, item->digest) < 0;
    strcpy(seen->last, item->digest);
    seen->whole &= item->meta_size > 7 && memcmp(item->meta, "sample ", 7) == 0 && item->size > SIZE &&
                   strstr(text_string(&item->preimage), "6:number ") && time(NULL) - item->last_used < 100;
    if (item->damage)
        snprintf(seen->damage, sizeof seen->damage, "%s", item->damage);
    return ++seen->count == seen->stop_after;
}

Test(cache, visits_every_entry_in_order) {
    struct cache *cache = open_at(directory, 0);
    struct failure failure = {0};
    for (int number = 0; number < 20; number++)
        cr_assert_eq(get(cache, number), SAMPLE_BUILT);
    make_file("entries", "README", 5);
    struct seen seen = {.ordered = true, .whole = true};
    cr_expect_eq(cache_visit(cache, 1, see, &seen, &failure), ATT_OK);
    cr_expect_eq(seen.count, 20);
    cr_expect(seen.ordered && seen.whole);
    cr_expect_str_empty(seen.damage);
    seen = (struct seen){.ordered = true, .whole = true, .stop_after = 3};
    cr_expect_eq(cache_visit(cache, 0, see, &seen, &failure), ATT_OK);
    cr_expect_eq(seen.count, 3);
    cr_assert_eq(scratch_damage(directory, 5), 0);
    seen = (struct seen){.ordered = true};
    cr_expect_eq(cache_visit(cache, 0, see, &seen, &failure), ATT_OK);
    cr_expect_eq(seen.count, 20);
    cr_expect_str_eq(seen.damage, "checksum does not match");
    cr_expect_eq(scratch_count(directory, "quarantine"), 0, "looking changes nothing");
    cache_close(cache);
}

Test(cache, without_a_directory_there_is_nothing_to_visit) {
    struct cache_options options = {.disabled = 1};
    struct cache *cache = cache_open(&options);
    struct seen seen = {0};
    struct failure failure = {0};
    uint64_t removed = 1;
    cr_expect_eq(cache_visit(cache, 1, see, &seen, &failure), ATT_OK);
    cr_expect_eq(cache_trim(cache, 0, 1, 0, &removed, &failure), ATT_OK);
    cr_expect_eq(stat_of(cache).entries + (uint64_t)seen.count + removed, 0);
    cache_close(cache);
    cache_close(NULL);
}

/* --- threads, locks and forks --- */

enum { THREADS = 16 };

struct crowd {
    struct cache *cache;
    struct sample_build build;
    atomic_int results[4];
    atomic_int own_text; /* failures that carried the build's text */
};

static void *ask(void *context) {
    struct crowd *crowd = context;
    if (!crowd->build.fails) {
        atomic_fetch_add(&crowd->results[sample_get(crowd->cache, &crowd->build)], 1);
        return NULL;
    }
    struct cache_key key;
    struct cache_entry entry;
    struct failure failure = {0};
    sample_key(crowd->build.number, &key);
    if (cache_get(crowd->cache, &key, sample_build, &crowd->build, &entry, NULL, &failure) == ATT_COMPILE_FAILED)
        atomic_fetch_add(&crowd->own_text, strcmp(text_string(&failure.text), "sample 1 does not compile") == 0);
    failure_clear(&failure);
    cache_key_free(&key);
    return NULL;
}

static void gather(struct crowd *crowd) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, ask, crowd), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

Test(cache, threads_that_want_one_key_build_it_once) {
    for (int disabled = 0; disabled < 2; disabled++) {
        struct cache_options options = {.dir = directory, .disabled = disabled};
        atomic_int calls = 0;
        struct crowd crowd = {.cache = cache_open(&options),
                              .build = {.number = 1, .size = SIZE, .calls = &calls, .pause_us = 300000}};
        gather(&crowd);
        cr_expect_eq(calls, 1, "%d", calls);
        cr_expect_eq(crowd.results[SAMPLE_BUILT], 1);
        cr_expect_eq(crowd.results[SAMPLE_HIT], THREADS - 1);
        cache_close(crowd.cache);
    }
}

Test(cache, threads_that_waited_get_the_failure_too) {
    struct cache *cache = open_at(directory, 0);
    atomic_int calls = 0;
    struct crowd crowd = {.cache = cache, .build = {.number = 1, .calls = &calls, .pause_us = 300000, .fails = true}};
    gather(&crowd);
    cr_expect_eq(calls, 1, "%d", calls);
    cr_expect_eq(crowd.own_text, THREADS);
    cr_expect_eq(get(cache, 1), SAMPLE_BUILT, "a failure is not remembered");
    cache_close(cache);
}

/* Start a process that holds the lock of key 1 for `seconds`, inside a build. */
static pid_t hold_lock(int seconds) {
    int ready[2];
    cr_assert_eq(pipe(ready), 0);
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        struct cache *cache = open_at(directory, 0);
        sample_get(cache, &(struct sample_build){
                              .number = 1, .size = SIZE, .count_file = ready[1], .pause_us = seconds * 1000000});
        _exit(0);
    }
    char byte;
    cr_assert_eq(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return child;
}

Test(cache, waits_for_another_process_only_so_long) {
    pid_t child = hold_lock(20);
    struct cache_options options = {.dir = directory, .lock_wait_ms = 100, .log = sample_log, .log_context = &messages};
    struct cache *cache = cache_open(&options);
    cr_expect_eq(get(cache, 1), SAMPLE_BUILT);
    cr_expect(logged("was held for 100 ms"), "%s", text_string(&messages.text));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    cache_close(cache);
}

Test(cache, a_killed_process_holds_no_lock) {
    pid_t child = hold_lock(20);
    kill(child, SIGKILL);
    cr_expect_eq(get_at(directory, 1), SAMPLE_BUILT);
    cr_expect_eq(messages.count, 0);
    waitpid(child, NULL, 0);
}

Test(cache, waits_for_another_process_and_takes_its_result) {
    pid_t child = hold_lock(1);
    cr_expect_eq(get_at(directory, 1), SAMPLE_HIT);
    waitpid(child, NULL, 0);
}

static void *build_slowly(void *context) {
    sample_get(context, &(struct sample_build){.number = 1, .size = SIZE, .pause_us = 500000});
    return NULL;
}

Test(cache, a_forked_child_can_close_and_is_told_to_open_its_own) {
    struct cache *cache = open_at(directory, 0);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) /* one builds and one waits for it while we fork */
        cr_assert_eq(pthread_create(&threads[i], NULL, build_slowly, cache), 0);
    usleep(100000);
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        alarm(20);
        struct cache_key key;
        struct cache_entry entry;
        struct failure failure = {0};
        sample_key(1, &key);
        enum att_status status = cache_get(cache, &key, sample_build, NULL, &entry, NULL, &failure);
        cache_close(cache);
        enum sample_result own = get_at(directory, 2);
        _exit(status == ATT_FORKED && own == SAMPLE_BUILT ? 0 : 1);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%x", status);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    cr_expect_eq(get(cache, 1), SAMPLE_HIT);
    cache_close(cache);
}
