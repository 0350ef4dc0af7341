/* A cache under failures: a process is killed before each of its system calls, and each call fails with each errno,
   once and for ever, on every path: cold, hit, repair, evict, clean up. The returned bytes must be right, nothing
   may hang or crash, and the next use must find nothing wrong, with a hit after it. strace injects the faults into
   the unchanged library. */
#include "helper_cache.h"
#include "helper_faults.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NUMBER = 7 };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1, STRIDE = 23 }; /* starting a process is slow there, so only a sample runs */
#else
enum { SANITIZED = 0, STRIDE = 1 };
#endif

TestSuite(cache_faults, .timeout = 400);

/* --- running the probe --- */

static const char *const probe = BUILD_DIR "/tests/cache_probe";

struct scenario {
    const char *what; /* the probe's argument */
    uint64_t limit;   /* bytes; 0 = default */
    void (*prepare)(const char *directory);
    int from; /* probe mark where faults begin; opening is the same on all paths, so two of them cover it */
};

/* Returns the probe's command line, valid until the next call. */
static const char *const *command_of(const struct scenario *scenario, const char *directory) {
    static char limit[32];
    static const char *command[5];
    snprintf(limit, sizeof limit, "%llu", (unsigned long long)scenario->limit);
    memcpy(command, (const char *[]){probe, directory, limit, scenario->what, NULL}, sizeof command);
    return command;
}

static void need_strace(void) {
    faults_need_strace();
    if (SANITIZED)
        cr_log_info("under a sanitizer: only some of the faults are tried");
}

/* --- the paths --- */

static void warm(const char *directory, int first, int count) {
    struct cache *cache = cache_open(&(struct cache_options){.dir = directory});
    cr_assert(cache);
    for (int number = first; number < first + count; number++)
        cr_assert_eq(sample_get(cache, &(struct sample_build){.number = number, .size = PROBE_SIZE}), SAMPLE_BUILT);
    cache_close(cache);
}

static void set_old(const char *path) {
    struct timespec times[2] = {{.tv_sec = time(NULL) - 86400}, {.tv_sec = time(NULL) - 86400}};
    cr_assert_eq(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void prepare_cold(const char *directory) { (void)directory; }

static void prepare_hit(const char *directory) { /* old enough that a use is recorded */
    struct cache_key key;
    warm(directory, NUMBER, 1);
    sample_key(NUMBER, &key);
    set_old(scratch_path(directory, "entries", key.digest));
    cache_key_free(&key);
}

static void prepare_repair(const char *directory) {
    warm(directory, NUMBER, 1);
    cr_assert_eq(scratch_damage(directory, NUMBER), 0);
}

static void prepare_evict(const char *directory) { warm(directory, 100, 4); }

static void prepare_clean(const char *directory) {
    warm(directory, 100, 2);
    const char *const names[][2] = {
        {"temporary", "00000000000000000000000000000001"},
        {"quarantine", "00000000000000000000000000000001"},
    };
    for (int i = 0; i < 2; i++) {
        const char *path = scratch_path(directory, names[i][0], names[i][1]);
        cr_assert_eq(close(open(path, O_CREAT | O_WRONLY, 0600)), 0);
        set_old(path);
    }
}

enum { FROM_OPENING = 1, FROM_USE = 2, END = 3 };

static const struct scenario cold = {"7", 0, prepare_cold, FROM_OPENING};
static const struct scenario hit = {"7", 0, prepare_hit, FROM_USE};
static const struct scenario repair = {"7", 0, prepare_repair, FROM_USE};
static const struct scenario evict = {"7", 4 * PROBE_SIZE, prepare_evict, FROM_USE};
static const struct scenario clean = {"trim", 0, prepare_clean, FROM_OPENING};

static void record(const struct scenario *scenario, struct fault_trace *trace) {
    const char *directory = scratch_make_fast();
    char file[300];
    scenario->prepare(directory);
    snprintf(file, sizeof file, "%s/trace", directory);
    faults_record(command_of(scenario, directory), file, scenario->from, END, trace);
    scratch_remove(directory);
}

/* --- what must hold afterwards --- */

static int find_damage(void *damage, const struct cache_item *item) {
    if (item->damage)
        *(const char **)damage = item->damage;
    return 0;
}

static void expect_no_damage(const char *directory, const char *fault) {
    struct cache *cache = cache_open(&(struct cache_options){.dir = directory});
    struct failure failure = {0};
    const char *damage = NULL;
    cr_assert(cache);
    cr_expect_eq(cache_visit(cache, 1, find_damage, &damage, &failure), ATT_OK);
    cr_expect_null(damage, "%s: left an entry: %s", fault, damage);
    cache_close(cache);
}

/* Uses the cache twice without faults: both results are right, the second is a hit, and no damaged entry is left. */
static void expect_healed(const struct scenario *scenario, const char *directory, const char *fault) {
    struct cache *cache = cache_open(&(struct cache_options){.dir = directory, .limit = scenario->limit});
    struct sample_build sample = {.number = NUMBER, .size = PROBE_SIZE};
    cr_assert(cache);
    enum sample_result first = sample_get(cache, &sample);
    cr_expect(first == SAMPLE_BUILT || first == SAMPLE_HIT, "%s: next use gives %d", fault, first);
    cr_expect_eq(sample_get(cache, &sample), SAMPLE_HIT, "%s: does not heal", fault);
    cr_expect_leq(scratch_count(directory, "temporary"), 2, "%s: left temporaries", fault);
    cache_close(cache);
    expect_no_damage(directory, fault);
}

static void kill_before(const struct scenario *scenario, const struct fault_call *call) {
    char fault[FAULTS_TEXT];
    const char *directory = scratch_make_fast();
    scenario->prepare(directory);
    int status = faults_kill(command_of(scenario, directory), call, fault);
    cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "%s: was not killed: %x", fault, status);
    if (scenario != &repair) /* a half-written file never has an entry's name */
        expect_no_damage(directory, fault);
    expect_healed(scenario, directory, fault);
    scratch_remove(directory);
}

static void fail(const struct scenario *scenario, const struct fault_call *call, const struct fault *how) {
    char fault[FAULTS_TEXT];
    const char *directory = scratch_make_fast();
    scenario->prepare(directory);
    int status = faults_inject(command_of(scenario, directory), call, how, true, fault);
    bool may_fail = faults_of_memory(call) || scenario == &clean;
    int result = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    bool hangs = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
    cr_expect(result == SAMPLE_BUILT || result == SAMPLE_HIT || (may_fail && result == SAMPLE_FAILED),
              "%s: %s, status %x", fault, hangs ? "hangs" : "wrong, failed or crashed", status);
    expect_healed(scenario, directory, fault);
    scratch_remove(directory);
}

static void kill_before_every_call(const struct scenario *scenario) {
    static struct fault_trace trace;
    need_strace();
    record(scenario, &trace);
    for (int i = 0; i < trace.count; i += SANITIZED ? 5 : 1)
        kill_before(scenario, &trace.calls[i]);
    cr_log_info("killed before each of %d system calls", trace.count);
}

/* Injects each errno once; an errno that lasts once it occurs is also injected for ever. */
static void fail_every_call(const struct scenario *scenario) {
    static struct fault_trace trace;
    int done = 0, count = 0;
    need_strace();
    record(scenario, &trace);
    for (int i = 0; i < trace.count; i++)
        for (const struct fault *fault = fault_table; fault->how; fault++)
            if (count++ % STRIDE == 0 && faults_possible(&trace.calls[i], fault) &&
                !(SANITIZED && faults_of_memory(&trace.calls[i]))) {
                fail(scenario, &trace.calls[i], fault);
                done++;
            }
    cr_log_info("%d faults in %d system calls", done, trace.count);
}

/* Guards the tests below against a tool that injects nothing. */
Test(cache_faults, injected_faults_arrive) {
    need_strace();
    const char *directory = scratch_make_fast();
    int kept[2];
    for (int i = 0; i < 2; i++) {
        char fault[FAULTS_TEXT];
        int status = faults_inject(command_of(&cold, directory), &(struct fault_call){"fsync", 2 - i},
                                   &(struct fault){"error=EIO", ""}, true, fault);
        cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == SAMPLE_BUILT, "%s: %x", fault, status);
        kept[i] = scratch_count(directory, "entries");
        scratch_remove(scratch_path(directory, "entries", ""));
    }
    cr_expect_eq(kept[0], 1, "the second fsync: there is none");
    cr_expect_eq(kept[1], 0, "the first fsync failed: nothing may be kept");
    scratch_remove(directory);
}

Test(cache_faults, killed_anywhere_on_a_cold_use) { kill_before_every_call(&cold); }
Test(cache_faults, killed_anywhere_on_a_hit) { kill_before_every_call(&hit); }
Test(cache_faults, killed_anywhere_on_a_repair) { kill_before_every_call(&repair); }
Test(cache_faults, killed_anywhere_on_an_eviction) { kill_before_every_call(&evict); }
Test(cache_faults, killed_anywhere_on_a_clean_up) { kill_before_every_call(&clean); }

Test(cache_faults, every_errno_anywhere_on_a_cold_use) { fail_every_call(&cold); }
Test(cache_faults, every_errno_anywhere_on_a_hit) { fail_every_call(&hit); }
Test(cache_faults, every_errno_anywhere_on_a_repair) { fail_every_call(&repair); }
Test(cache_faults, every_errno_anywhere_on_an_eviction) { fail_every_call(&evict); }
Test(cache_faults, every_errno_anywhere_on_a_clean_up) { fail_every_call(&clean); }
