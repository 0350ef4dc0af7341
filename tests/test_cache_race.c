/* Another process uses an entry between a trim's listing of it and the trim's second look at it. The linker
   inserts that use. */
#include "fixture_cache.h"

#include <stdio.h>

TestSuite(cache_race, .init = setup, .fini = teardown, .timeout = 120);

static void (*between)(const char *path); /* runs once, at the second look at entry 1: after listing, before removing */
static int looks;

int __real_fstatat(int folder, const char *name, struct stat *status, int flags);
int __wrap_fstatat(int folder, const char *name, struct stat *status, int flags);

int __wrap_fstatat(int folder, const char *name, struct stat *status, int flags) {
    const char *entry = between ? strrchr(entry_path(1), '/') + 1 : "";
    if (strcmp(name, entry) == 0 && ++looks == 2)
        between(entry_path(1));
    return __real_fstatat(folder, name, status, flags);
}

static void use(const char *path) { cr_assert_eq(utimensat(AT_FDCWD, path, NULL, 0), 0); }
static void removed_already(const char *path) { cr_assert_eq(unlink(path), 0); }
static void replace(const char *path) { /* by a file of the same age and size */
    struct stat status;
    char copy[400];
    cr_assert_eq(stat(path, &status), 0);
    snprintf(copy, sizeof copy, "%s.new", path);
    int file = open(copy, O_CREAT | O_WRONLY, 0600);
    cr_assert_eq(ftruncate(file, status.st_size), 0);
    const struct timespec times[2] = {status.st_atim, status.st_mtim};
    cr_assert_eq(futimens(file, times), 0);
    cr_assert_eq(close(file), 0);
    cr_assert_eq(rename(copy, path), 0);
}

/* An entry that was used or replaced since the listing stays, which is not a failure. An entry that is already gone
   counts as removed. */
static void check(void (*what)(const char *path), uint64_t removed, int left) {
    struct cache *cache = open_at(directory, 0);
    struct failure failure = {0};
    uint64_t found = 99;
    cr_assert_eq(get(cache, 1), SAMPLE_BUILT);
    cr_assert_eq(get(cache, 2), SAMPLE_BUILT);
    between = what;
    cr_expect_eq(cache_trim(cache, 0, 0, 0, &found, &failure), ATT_OK, "%s", text_string(&failure.text));
    between = NULL;
    cr_expect_geq(looks, 2, "the trim looked %d times", looks);
    cr_expect_eq(found, removed, "%d removed", (int)found);
    cr_expect_eq(scratch_count(directory, "entries"), left);
    cache_close(cache);
}

Test(cache_race, what_was_just_used_stays) { check(use, 1, 1); }
Test(cache_race, what_was_just_replaced_stays) { check(replace, 1, 1); }
Test(cache_race, what_has_just_gone_is_gone) { check(removed_already, 2, 0); }
