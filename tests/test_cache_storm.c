/* Many processes ask for the same keys at the same time; some are killed, some trim. There must be no wrong bytes and
   no more builds than keys. (Threads: thread_cache.c.) */
#include "helper_cache.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1, PROCESSES = 16, KEYS = 100, KILLS = 30 };
#else
enum { SANITIZED = 0, PROCESSES = 256, KEYS = 1000, KILLS = 400 };
#endif
enum { SIZE = 500 };

TestSuite(cache_storm, .timeout = 300);

static uint32_t draw(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Fills `order` with 0 .. count - 1 in an order that depends on the seed. */
static void shuffle(int *order, int count, uint32_t seed) {
    for (int i = 0; i < count; i++) {
        int j = (int)(draw(&seed) % (uint32_t)(i + 1));
        order[i] = order[j];
        order[j] = i;
    }
}

/* Asks for every key once, in random order. True if every answer was right. */
static bool ask_all(struct cache *cache, uint32_t seed, int count_file, int pause_us) {
    int order[KEYS];
    bool right = true;
    shuffle(order, KEYS, seed);
    for (int i = 0; i < KEYS; i++) {
        struct sample_build sample = {.number = order[i], .size = SIZE, .count_file = count_file, .pause_us = pause_us};
        enum sample_result result = sample_get(cache, &sample);
        right &= result == SAMPLE_BUILT || result == SAMPLE_HIT;
    }
    return right;
}

static pid_t start(const char *directory, uint32_t seed, int count_file, int pause_us) {
    pid_t child = fork();
    if (child != 0)
        return child;
    struct cache *cache = cache_open(&(struct cache_options){.dir = directory});
    bool right = cache && cache_dir(cache) && ask_all(cache, seed, count_file, pause_us);
    cache_close(cache);
    _exit(right ? 0 : 1);
}

static int64_t builds(int count_file) {
    struct stat status;
    cr_assert_eq(fstat(count_file, &status), 0);
    return status.st_size;
}

static int open_count(const char *directory) {
    int file = open(scratch_path(directory, "", "count"), O_RDWR | O_CREAT | O_APPEND, 0600);
    cr_assert_geq(file, 0);
    return file;
}

static int find_damage(void *damaged, const struct cache_item *item) {
    *(int *)damaged += item->damage != NULL;
    return 0;
}

static void expect_whole(const char *directory, int keys) {
    struct cache *cache = cache_open(&(struct cache_options){.dir = directory});
    struct failure failure = {0};
    struct cache_stat stat;
    int damaged = 0;
    cr_assert_eq(cache_visit(cache, 1, find_damage, &damaged, &failure), ATT_OK);
    cr_assert_eq(cache_stat(cache, &stat, &failure), ATT_OK);
    cr_expect_eq(damaged, 0);
    cr_expect_eq(stat.quarantined, 0);
    cr_expect_eq(stat.entries, (uint64_t)keys);
    cache_close(cache);
}

Test(cache_storm, processes_on_one_cold_directory_build_each_key_once) {
    static pid_t children[PROCESSES];
    const char *directory = scratch_make_fast();
    int count_file = open_count(directory), wrong = 0;
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = start(directory, (uint32_t)i, count_file, 0);
        cr_assert_gt(children[i], 0);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        cr_assert_eq(waitpid(children[i], &status, 0), children[i]);
        wrong += status != 0;
    }
    cr_expect_eq(wrong, 0, "%d processes got something wrong or crashed", wrong);
    cr_expect_eq(builds(count_file), KEYS, "%d builds of %d keys", (int)builds(count_file), KEYS);
    expect_whole(directory, KEYS);
    close(count_file);
    scratch_remove(directory);
    cr_log_info("%d processes x %d keys%s", PROCESSES, KEYS, SANITIZED ? " (fewer under a sanitizer)" : "");
}

/* Kills processes at random times and starts others in their place, then lets a last one ask for all keys. */
Test(cache_storm, killed_processes_leave_nothing_wrong) {
    enum { AT_ONCE = 16, PAUSE_US = 5000 }; /* builds long enough to be killed in */
    const char *directory = scratch_make_fast();
    int count_file = open_count(directory), wrong = 0;
    pid_t children[AT_ONCE];
    uint32_t state = 9;
    for (int i = 0; i < AT_ONCE; i++)
        children[i] = start(directory, (uint32_t)i, count_file, PAUSE_US);
    for (int i = 0; i < KILLS; i++) {
        int victim = (int)(draw(&state) % AT_ONCE), status;
        usleep(draw(&state) % 3000);
        kill(children[victim], SIGKILL);
        cr_assert_eq(waitpid(children[victim], &status, 0), children[victim]);
        wrong += WIFEXITED(status) ? WEXITSTATUS(status) != 0 : WTERMSIG(status) != SIGKILL;
        children[victim] = start(directory, 1000 + (uint32_t)i, count_file, PAUSE_US);
        cr_assert_gt(children[victim], 0);
    }
    for (int i = 0; i < AT_ONCE; i++) {
        int status;
        cr_assert_eq(waitpid(children[i], &status, 0), children[i]);
        wrong += status != 0;
    }
    cr_expect_eq(wrong, 0);
    expect_whole(directory, KEYS);
    cr_expect_leq(builds(count_file), KEYS + KILLS, "a kill costs one build at most");
    cr_log_info("%d kills, %d builds of %d keys", KILLS, (int)builds(count_file), KEYS);
    close(count_file);
    scratch_remove(directory);
}

/* Readers, writers and damage on a cache that is continuously trimmed to nothing. */
Test(cache_storm, trimming_and_damage_under_way_harm_nobody) {
    enum { READERS = 6, TRIMS = SANITIZED ? 30 : 150 };
    const char *directory = scratch_make_fast();
    pid_t children[READERS];
    for (int i = 0; i < READERS; i++)
        children[i] = start(directory, (uint32_t)i, 0, 0);
    struct cache *cache = cache_open(&(struct cache_options){.dir = directory});
    int wrong = 0;
    for (int i = 0; i < TRIMS; i++) {
        uint64_t removed;
        struct failure failure = {0};
        scratch_damage(directory, i);
        cr_expect_eq(cache_trim(cache, i % 3 ? 20000 : 0, 1, 0, &removed, &failure), ATT_OK, "%s",
                     text_string(&failure.text));
        failure_clear(&failure);
        usleep(2000);
    }
    for (int i = 0; i < READERS; i++) {
        int status;
        cr_assert_eq(waitpid(children[i], &status, 0), children[i]);
        wrong += status != 0;
    }
    cr_expect_eq(wrong, 0);
    cache_close(cache);
    scratch_remove(directory);
}
