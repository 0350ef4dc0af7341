/* A whole directory: its limit, what is evicted and trimmed, and what a visitor sees. */
#include "fixture_cache.h"

#include <fcntl.h>
#include <stdio.h>

TestSuite(cache_admin, .init = setup, .fini = teardown, .timeout = 120);

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

Test(cache_admin, notes_a_use_at_most_once_an_hour) {
    cr_assert_eq(get_at(directory, 1), SAMPLE_BUILT);
    static const struct {
        int64_t before;
        bool noted;
    } cases[] = {{60, false}, {1800, false}, {7200, true}, {864000, true}, {-7200, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        set_age(entry_path(1), cases[i].before);
        cr_assert_eq(get_at(directory, 1), SAMPLE_HIT);
        int64_t age = age_of(entry_path(1));
        cr_expect_eq(age > -30 && age < 30, cases[i].noted, "case %zu: %lld", i, (long long)age);
    }
}

Test(cache_admin, stays_within_its_limit) {
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

Test(cache_admin, evicts_what_was_least_recently_used) {
    for (int number = 0; number < 10; number++) {
        cr_assert_eq(get_at(directory, number), SAMPLE_BUILT);
        set_age(entry_path(number), 100000 - number * 1000);
    }
    cr_assert_eq(get_at(directory, 0), SAMPLE_HIT); /* the oldest, but in use */
    struct cache *cache = open_at(directory, 0);
    uint64_t each = stat_of(cache).bytes / 10;
    cache_close(cache);
    cache = open_at(directory, each * 10 + each / 2); /* 11 entries exceed the limit; 9 are seven eighths */
    cr_assert_eq(get(cache, 10), SAMPLE_BUILT);
    cache_close(cache);
    for (int number = 0; number <= 10; number++)
        cr_expect_eq(access(entry_path(number), F_OK) == 0, number != 1 && number != 2, "%d", number);
}

Test(cache_admin, keeps_nothing_larger_than_half_of_its_limit) {
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

Test(cache_admin, removes_what_crashes_left_behind_on_open) {
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

/* Setting a clock back leaves files that would never grow old. */
Test(cache_admin, files_dated_in_the_future_go_and_clocks_may_differ_a_little) {
    static const struct {
        const char *part;
        int64_t age;
        bool goes;
    } cases[] = {
        {"temporary", -60, false}, {"temporary", -3600, true}, {"quarantine", -60, false}, {"quarantine", -3600, true}};
    cr_assert_eq(get_at(directory, 1), SAMPLE_BUILT);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make_file(cases[i].part, old_name, cases[i].age);
        cache_close(open_at(directory, 0));
        bool gone = access(scratch_path(directory, cases[i].part, old_name), F_OK) != 0;
        cr_expect_eq(gone, cases[i].goes, "%s, dated %d s ahead", cases[i].part, (int)-cases[i].age);
        unlink(scratch_path(directory, cases[i].part, old_name));
    }
}

/* --- what happens between listing and removing --- */

static const char *disturbed; /* path of an entry that another process uses meanwhile; null = none */
static int looks;             /* at that entry; the first look is the listing */
static void (*disturb)(const char *path);

int __real_fstatat(int directory, const char *path, struct stat *status, int flags);
int __wrap_fstatat(int folder, const char *path, struct stat *status, int flags);
int __wrap_fstatat(int folder, const char *path, struct stat *status, int flags) {
    if (disturbed && strstr(disturbed, path) && ++looks == 2)
        disturb(disturbed);
    return __real_fstatat(folder, path, status, flags);
}

static void use(const char *path) { set_age(path, 0); }

static void replace(const char *path) {
    char other[420];
    snprintf(other, sizeof other, "%s.new", path);
    cr_assert_eq(close(open(other, O_CREAT | O_EXCL | O_WRONLY, 0600)), 0);
    struct stat status;
    cr_assert_eq(stat(path, &status), 0);
    cr_assert_eq(truncate(other, status.st_size), 0);
    cr_assert_eq(utimensat(AT_FDCWD, other, (struct timespec[2]){status.st_mtim, status.st_mtim}, 0), 0);
    cr_assert_eq(rename(other, path), 0);
}

static void take(const char *path) { unlink(path); }

Test(cache_admin, what_was_used_or_replaced_since_it_was_listed_stays) {
    static const struct {
        void (*disturb)(const char *path);
        uint64_t removed;
        bool stays;
    } cases[] = {{use, 3, true}, {replace, 3, true}, {take, 4, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cache *cache = open_at(directory, 0);
        for (int number = 0; number < 4; number++) {
            cr_assert_eq(get(cache, number), SAMPLE_BUILT);
            set_age(entry_path(number), 5000);
        }
        char path[400];
        snprintf(path, sizeof path, "%s", entry_path(2));
        disturbed = path;
        disturb = cases[i].disturb;
        looks = 0;
        uint64_t removed;
        struct failure failure = {0};
        cr_expect_eq(cache_trim(cache, 0, 0, 0, &removed, &failure), ATT_OK, "case %zu: %s", i,
                     text_string(&failure.text));
        disturbed = NULL;
        cr_expect_eq(looks, 2, "case %zu: %d", i, looks);
        cr_expect_eq(removed, cases[i].removed, "case %zu: %d", i, (int)removed);
        cr_expect_eq(access(path, F_OK) == 0, cases[i].stays, "case %zu", i);
        cr_expect_eq(cache_trim(cache, 0, 0, 0, &removed, &failure), ATT_OK);
        cache_close(cache);
    }
}

Test(cache_admin, trims_to_a_size_and_only_counts_when_dry) {
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

Test(cache_admin, says_when_something_cannot_be_removed) {
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
    char last[CACHE_DIGEST + 1];
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

Test(cache_admin, visits_every_entry_in_order) {
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

Test(cache_admin, verifying_finds_a_digest_that_is_not_the_preimages) {
    forge_entry();
    struct cache *cache = open_at(directory, 0);
    struct failure failure = {0};
    for (int verify = 0; verify < 2; verify++) {
        struct seen seen = {0};
        cr_expect_eq(cache_visit(cache, verify, see, &seen, &failure), ATT_OK);
        cr_expect_eq(seen.count, 1);
        cr_expect_str_eq(seen.damage, verify ? "digest is not the preimage's" : "");
    }
    cache_close(cache);
}

Test(cache_admin, without_a_directory_there_is_nothing_to_visit) {
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
