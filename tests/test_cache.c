/* One process and its cache: hits, repairs, threads, locks and forks. */
#include "fixture_cache.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

TestSuite(cache, .init = setup, .fini = teardown, .timeout = 120);

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

Test(cache, an_entry_made_from_other_inputs_is_not_used) {
    forge_entry();
    cr_expect_eq(get_at(directory, 1), SAMPLE_BUILT);
    cr_expect(logged("made from other inputs"), "%s", text_string(&messages.text));
}

/* Asks for key 2 under the digest of key 1, while key 1 is being built. */
static enum att_status build_within(void *context, struct cache_entry *entry, struct failure *failure) {
    struct cache *cache = context;
    struct cache_key key, other;
    struct cache_entry theirs = {0};
    struct sample_build sample = {.number = 2, .size = SIZE};
    sample_key(1, &key);
    sample_key(2, &other);
    memcpy(other.digest, key.digest, sizeof key.digest);
    enum att_status status = cache_get(cache, &other, sample_build, &sample, &theirs, NULL, failure);
    cr_expect(status == ATT_OK && sample_equal(2, SIZE, &theirs));
    cache_entry_free(&theirs);
    cache_key_free(&key);
    cache_key_free(&other);
    return sample_entry(1, SIZE, entry) ? ATT_OK : ATT_OUT_OF_MEMORY;
}

Test(cache, two_keys_of_one_digest_each_get_their_own, .timeout = 20) {
    struct cache_options options = {.dir = directory, .lock_wait_ms = 1};
    struct cache *cache = cache_open(&options);
    struct cache_key key;
    struct cache_entry entry = {0};
    struct failure failure = {0};
    sample_key(1, &key);
    cr_assert_eq(cache_get(cache, &key, build_within, cache, &entry, NULL, &failure), ATT_OK);
    cr_expect(sample_equal(1, SIZE, &entry));
    cache_entry_free(&entry);
    cr_expect_eq(get(cache, 1), SAMPLE_HIT, "the later of the two stays");
    cache_key_free(&key);
    cache_close(cache);
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

/* --- threads, locks and forks --- */

enum { THREADS = 16 };

struct crowd {
    struct cache *cache;
    pthread_barrier_t start; /* starts all at once; the build is slow enough that all arrive while it runs */
    struct sample_build build;
    atomic_int results[4];
    atomic_int own_text; /* failures that carried the build's message */
};

static void *ask(void *context) {
    struct crowd *crowd = context;
    pthread_barrier_wait(&crowd->start);
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
    cr_assert_eq(pthread_barrier_init(&crowd->start, NULL, THREADS), 0);
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, ask, crowd), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&crowd->start);
}

Test(cache, threads_that_want_one_key_build_it_once) {
    for (int disabled = 0; disabled < 2; disabled++) {
        struct cache_options options = {.dir = directory, .disabled = disabled};
        atomic_int calls = 0;
        struct crowd crowd = {.cache = cache_open(&options),
                              .build = {.number = 1, .size = SIZE, .calls = &calls, .pause_us = 1000000}};
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
    struct crowd crowd = {.cache = cache, .build = {.number = 1, .calls = &calls, .pause_us = 1000000, .fails = true}};
    gather(&crowd);
    cr_expect_eq(calls, 1, "%d", calls);
    cr_expect_eq(crowd.own_text, THREADS);
    cr_expect_eq(get(cache, 1), SAMPLE_BUILT, "a failure is not remembered");
    cache_close(cache);
}

/* Starts a process that holds the lock of key 1 for `seconds`, inside a build. */
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
    for (int i = 0; i < 2; i++) /* one builds, and one waits for it while we fork */
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
