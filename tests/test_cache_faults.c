/* A cache among failures: a process is killed before each of its system calls, and each of them fails with each errno,
   once and for ever, on every path: cold, hit, repair, evict, clean up. What must hold: the bytes returned are right,
   nothing hangs or crashes, and the next use finds nothing wrong and a hit after it. Faults are injected by strace,
   into the unchanged library. */
#include "helper_cache.h"

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

enum { NUMBER = 7, MAX_CALLS = 400 };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1, STRIDE = 23 }; /* starting a process is slow there: a sample */
#else
enum { SANITIZED = 0, STRIDE = 1 };
#endif

TestSuite(cache_faults, .timeout = 400);

/* --- running the probe --- */

/* Status as of waitpid. Arguments as of execvp, null-terminated. */
static int run(const char *const *arguments) {
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, 1);
        dup2(null, 2);
        setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* the leak check cannot work under ptrace */
        execvp(arguments[0], (char *const *)arguments);
        _exit(127);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    return status;
}

static const char *const probe = BUILD_DIR "/tests/cache_probe";

struct scenario {
    const char *what; /* the probe's argument */
    uint64_t limit;   /* bytes; 0 = default */
    void (*prepare)(const char *directory);
    int from; /* the mark of the probe where faults begin: opening is the same on all paths, so two of them will do */
};

/* strace with its own options, then the probe. */
static int run_traced(const struct scenario *scenario, const char *directory, const char *const options[6]) {
    char limit[32];
    snprintf(limit, sizeof limit, "%llu", (unsigned long long)scenario->limit);
    const char *const use[] = {probe, directory, limit, scenario->what};
    const char *arguments[12] = {"strace"};
    int count = 1;
    for (int i = 0; i < 6 && options[i]; i++)
        arguments[count++] = options[i];
    for (int i = 0; i < 4; i++)
        arguments[count++] = use[i];
    return run(arguments);
}

static void need_strace(void) {
    const char *arguments[] = {"strace", "-o", "/dev/null", "-e", "inject=getppid:error=EIO", "true", NULL};
    int status = run(arguments);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        cr_skip("strace is not installed or may not trace here (ptrace): no fault was injected");
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

static void prepare_hit(const char *directory) { /* old enough for its use to be noted */
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

/* --- what the probe calls --- */

struct call {
    char name[24];
    int nth; /* of this name in the process, from 1: how strace counts */
};
struct trace {
    struct call calls[MAX_CALLS]; /* between the scenario's first mark and the last */
    int count;
};

static void record(const struct scenario *scenario, struct trace *trace) {
    static struct call seen[100]; /* how often each name was seen */
    int names = 0, marks = 0;
    const char *directory = scratch_make_fast();
    scenario->prepare(directory);
    char file[300], line[1000];
    snprintf(file, sizeof file, "%s/trace", directory);
    int status = run_traced(scenario, directory, (const char *const[6]){"-o", file});
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) <= SAMPLE_HIT, "the probe fails without faults: %x", status);
    FILE *stream = fopen(file, "r");
    cr_assert(stream);
    trace->count = 0;
    while (marks < END && fgets(line, sizeof line, stream)) {
        size_t length = strspn(line, "abcdefghijklmnopqrstuvwxyz0123456789_");
        if (!length || length >= sizeof seen[0].name || line[length] != '(')
            continue;
        line[length] = '\0';
        int i = 0;
        while (i < names && strcmp(seen[i].name, line) != 0)
            i++;
        if (i == names) {
            cr_assert_lt(names, 100);
            seen[names] = (struct call){.nth = 0};
            strcpy(seen[names++].name, line);
        }
        seen[i].nth++;
        if (strcmp(line, "getppid") == 0)
            marks++;
        else if (marks >= scenario->from) {
            cr_assert_lt(trace->count, MAX_CALLS);
            trace->calls[trace->count++] = seen[i];
        }
    }
    fclose(stream);
    scratch_remove(directory);
    cr_assert_eq(marks, END);
    cr_assert_gt(trace->count, 10, "a use of a cache makes more calls than %d", trace->count);
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

/* Two clean uses: both right, the second a hit, and not a damaged entry left. */
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

static bool is_one_of(const char *name, const char *const *names) {
    while (*names && strcmp(name, *names) != 0)
        names++;
    return *names;
}

static const char *const memory_calls[] = {"mmap", "mremap", "mprotect", "munmap", NULL};
/* These cannot fail, and their callers know; brk has a way of its own to say no, which strace cannot imitate. */
static const char *const never_fail[] = {"getpid", "geteuid", "brk", NULL};

static void kill_before(const struct scenario *scenario, const struct call *call) {
    char fault[100];
    snprintf(fault, sizeof fault, "inject=%s:signal=SIGKILL:when=%d", call->name, call->nth);
    const char *directory = scratch_make_fast();
    scenario->prepare(directory);
    int status = run_traced(scenario, directory, (const char *const[6]){"-o", "/dev/null", "-e", fault});
    cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "%s: was not killed: %x", fault, status);
    if (scenario != &repair) /* a half-written file never has an entry's name */
        expect_no_damage(directory, fault);
    expect_healed(scenario, directory, fault);
    scratch_remove(directory);
}

/* `how`: "error=EIO" or "retval=0"; `forever`: "" or "+", this call and all later ones of its name. */
static void fail(const struct scenario *scenario, const struct call *call, const char *how, const char *forever) {
    char fault[100], trace[40];
    snprintf(fault, sizeof fault, "inject=%s:%s:when=%d%s", call->name, how, call->nth, forever);
    snprintf(trace, sizeof trace, "trace=%s", call->name);
    const char *directory = scratch_make_fast();
    scenario->prepare(directory);
    /* Stopping only at this call makes it twice as fast. */
    int status = run_traced(scenario, directory,
                            (const char *const[6]){"-fo/dev/null", "--seccomp-bpf", "-e", trace, "-e", fault});
    bool may_fail = is_one_of(call->name, memory_calls) || scenario == &clean;
    int result = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    bool hangs = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
    cr_expect(result == SAMPLE_BUILT || result == SAMPLE_HIT || (may_fail && result == SAMPLE_FAILED),
              "%s: %s, status %x", fault, hangs ? "hangs" : "wrong, failed or crashed", status);
    expect_healed(scenario, directory, fault);
    scratch_remove(directory);
}

static void kill_before_every_call(const struct scenario *scenario) {
    static struct trace trace;
    need_strace();
    record(scenario, &trace);
    for (int i = 0; i < trace.count; i += SANITIZED ? 5 : 1)
        kill_before(scenario, &trace.calls[i]);
    cr_log_info("killed before each of %d system calls", trace.count);
}

/* Each errno once, and those that last when they come also for ever. */
static void fail_every_call(const struct scenario *scenario) {
    static const struct {
        const char *how, *forever;
    } faults[] = {
        {"error=EACCES", ""}, {"error=EROFS", ""},  {"error=ENOSPC", ""},  {"error=EDQUOT", ""}, {"error=EIO", ""},
        {"error=EMFILE", ""}, {"error=ENFILE", ""}, {"error=ESTALE", ""},  {"error=ENOLCK", ""}, {"error=ENOSYS", ""},
        {"error=EINTR", ""},  {"error=EBUSY", ""},  {"error=ENOMEM", ""},  {"retval=0", ""},     {"retval=1", ""},
        {"error=EROFS", "+"}, {"error=EIO", "+"},   {"error=EMFILE", "+"}, {"error=EINTR", "+"}, {"retval=0", "+"},
    };
    enum { FAULTS = sizeof faults / sizeof *faults };
    static const char *const transfers[] = {"read", "write", NULL}; /* may lie about how much they did */
    static struct trace trace;
    int done = 0;
    need_strace();
    record(scenario, &trace);
    for (int i = 0; i < trace.count * FAULTS; i += STRIDE) {
        const struct call *call = &trace.calls[i / FAULTS];
        const char *how = faults[i % FAULTS].how;
        bool lies = strncmp(how, "retval", 6) == 0;
        if ((lies && !is_one_of(call->name, transfers)) || is_one_of(call->name, never_fail) ||
            (SANITIZED && is_one_of(call->name, memory_calls)))
            continue;
        fail(scenario, call, how, faults[i % FAULTS].forever);
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
        const char *fault = i ? "inject=fsync:error=EIO:when=1" : "inject=fsync:error=EIO:when=2";
        int status =
            run_traced(&cold, directory,
                       (const char *const[6]){"-fo/dev/null", "--seccomp-bpf", "-e", "trace=fsync", "-e", fault});
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
