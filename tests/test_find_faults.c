/* att_find under failures: from an empty cache to a kernel, with each system call failing in each way, on the host
   device and with NVRTC. The kernel must compute what it should, or the failure must have a message. Nothing may crash
   or hang, and nothing bad may be kept: the next use must be right, and the one after it must come from disk. */
#include "find_probe.h"
#include "helper_cache.h"
#include "helper_faults.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 }; /* starting a process is slow there, so only a sample runs */
#else
enum { SANITIZED = 0 };
#endif

enum { OPENING = 1, END = 3, LENGTH = 300 };

static char top[LENGTH]; /* the stand-in compiler and the object that it hands out */

static void setup(void) {
    const char *made = scratch_make_fast();
    cr_assert(made);
    snprintf(top, sizeof top, "%s", made);
}

static void teardown(void) { scratch_remove(top); }

TestSuite(find_faults, .init = setup, .fini = teardown, .timeout = 580);

/* One use has its own cache, compiler folder and strace file. */
struct site {
    char cache[LENGTH + 20], temporary[LENGTH + 20], trace[LENGTH + 20];
    const char *command[4];
};

static void make_site(struct site *site, const char *arch) {
    snprintf(site->cache, sizeof site->cache, "%s/cache", top);
    snprintf(site->temporary, sizeof site->temporary, "%s/temporary", top);
    snprintf(site->trace, sizeof site->trace, "%s/trace", top);
    cr_assert(mkdir(site->cache, 0700) == 0 && mkdir(site->temporary, 0700) == 0);
    setenv("TMPDIR", site->temporary, 1);
    memcpy(site->command, (const char *[]){BUILD_DIR "/tests/find_probe", site->cache, arch, NULL},
           sizeof site->command);
}

static void remove_site(const struct site *site) {
    scratch_remove(site->cache);
    scratch_remove(site->temporary);
}

/* A C++ compiler takes most of the time and is not under test, so its stand-in compiles only once. */
static void use_stand_in(void) {
    char path[LENGTH + 20];
    snprintf(path, sizeof path, "%s/compiler", top);
    FILE *file = fopen(path, "w");
    cr_assert(file);
    fprintf(file,
            "#!/bin/sh\n"
            "if [ \"$1\" = --version ]; then echo stand-in; exit; fi\n"
            "for word; do [ \"$last\" = -o ] && out=$word; last=$word; done\n"
            "[ -f %s/object ] || c++ \"$@\" -o %s/object || exit 1\n"
            "cp %s/object $out\n",
            top, top, top);
    fclose(file);
    cr_assert_eq(chmod(path, 0755), 0);
    setenv("CXX", path, 1);
}

static int result_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : -1; }

static void expect_healed(const struct site *site, const char *text) {
    int result = result_of(faults_run(site->command));
    cr_expect(result == PROBE_BUILT || result == PROBE_HIT, "%s: next use gives %d", text, result);
    result = result_of(faults_run(site->command));
    cr_expect_eq(result, PROBE_HIT, "%s: does not heal, the use after gives %d", text, result);
    cr_expect_leq(scratch_count(site->temporary, ""), 1, "%s: left folders", text);
}

static void fail(const char *arch, const struct fault_call *call, const struct fault *fault) {
    char text[FAULTS_TEXT];
    struct site site;
    make_site(&site, arch);
    int status = faults_inject(site.command, call, fault, false, text), result = result_of(status);
    bool hangs = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
    cr_expect(result == PROBE_BUILT || result == PROBE_HIT || result == PROBE_FAILED, "%s: %s, status %x", text,
              hangs ? "hangs" : "wrong, silent or crashed", status);
    expect_healed(&site, text);
    remove_site(&site);
}

/* Excludes unfair faults. A close that strace fails has closed nothing, so a pipe never ends, whereas the system's own
   close always releases the file. A futex that fails makes the C library abort. A lock that is interrupted for ever
   makes the library wait for two minutes. */
static bool is_fair(const struct fault_call *call, const struct fault *fault) {
    static const char *const unfair[] = {"close", "futex", "flock"};
    for (size_t i = 0; i < sizeof unfair / sizeof *unfair; i++)
        if (strcmp(call->name, unfair[i]) == 0 && (i < 2 || *fault->lasting))
            return false;
    if (SANITIZED && faults_of_memory(call)) /* the sanitizer's own calls would end the program */
        return false;
    return faults_possible(call, fault);
}

static void record(const char *arch, int from, struct fault_trace *trace) {
    struct site site;
    make_site(&site, arch);
    faults_record(site.command, site.trace, from, END, trace);
    remove_site(&site);
}

/* Injects one of `stride` faults between the first mark and the last; with `reads`, also every fault of a read: one of
   those once left a truncated kernel in the cache. */
static void fail_calls(const char *arch, int stride, bool reads) {
    static struct fault_trace trace;
    int done = 0, count = 0;
    record(arch, OPENING, &trace);
    for (int i = 0; i < trace.count; i++)
        for (const struct fault *fault = fault_table; fault->how; fault++)
            if (is_fair(&trace.calls[i], fault) &&
                ((reads && strcmp(trace.calls[i].name, "read") == 0) || count++ % stride == 0)) {
                fail(arch, &trace.calls[i], fault);
                done++;
            }
    cr_log_info("%d faults in %d system calls", done, trace.count);
}

/* Makes the stand-in compile the object that it hands out. */
static void warm_up(void) {
    struct site site;
    use_stand_in();
    make_site(&site, "host");
    cr_assert_eq(result_of(faults_run(site.command)), PROBE_BUILT);
    remove_site(&site);
}

Test(find_faults, every_errno_anywhere_on_a_cold_find_on_the_host_device) {
    faults_need_strace();
    warm_up();
    fail_calls("host", SANITIZED ? 101 : 11, !SANITIZED);
}

Test(find_faults, errnos_on_a_cold_compile_with_nvrtc) {
    struct site site;
    faults_need_strace();
    make_site(&site, "sm_90a");
    int result = result_of(faults_run(site.command));
    remove_site(&site);
    if (result == PROBE_FAILED)
        cr_skip("no NVRTC here");
    fail_calls("sm_90a", SANITIZED ? 997 : 97, false);
}

Test(find_faults, killed_anywhere_on_a_cold_find_on_the_host_device) {
    static struct fault_trace trace;
    char text[FAULTS_TEXT];
    faults_need_strace();
    warm_up();
    record("host", OPENING, &trace);
    for (int i = 0; i < trace.count; i += SANITIZED ? 5 : 1) {
        struct site site;
        make_site(&site, "host");
        int status = faults_kill(site.command, &trace.calls[i], text);
        cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "%s: was not killed: %x", text, status);
        expect_healed(&site, text);
        remove_site(&site);
    }
    cr_log_info("killed before each of %d system calls", trace.count);
}
