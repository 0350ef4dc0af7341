#include "helper_faults.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

const struct fault fault_table[] = {
    {"error=EACCES", ""}, {"error=EROFS", ""},  {"error=ENOSPC", ""},  {"error=EDQUOT", ""}, {"error=EIO", ""},
    {"error=EMFILE", ""}, {"error=ENFILE", ""}, {"error=ESTALE", ""},  {"error=ENOLCK", ""}, {"error=ENOSYS", ""},
    {"error=EINTR", ""},  {"error=EBUSY", ""},  {"error=ENOMEM", ""},  {"retval=0", ""},     {"retval=1", ""},
    {"error=EROFS", "+"}, {"error=EIO", "+"},   {"error=EMFILE", "+"}, {"error=EINTR", "+"}, {"retval=0", "+"},
    {NULL, NULL},
};

int faults_run(const char *const *command) {
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, 1);
        dup2(null, 2);
        setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* the leak check does not work under ptrace */
        execvp(command[0], (char *const *)(uintptr_t)command);
        _exit(127);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    return status;
}

/* Runs strace with its own options, followed by the command. */
static int run_traced(const char *const *command, const char *const *options) {
    const char *words[2 * FAULTS_WORDS] = {"strace"};
    int count = 1;
    for (int part = 0; part < 2; part++)
        for (const char *const *word = part ? command : options; *word; word++) {
            cr_assert_lt(count, 2 * FAULTS_WORDS - 1);
            words[count++] = *word;
        }
    return faults_run(words);
}

void faults_need_strace(void) {
    const char *arguments[] = {"strace", "-o", "/dev/null", "-e", "inject=getppid:error=EIO", "true", NULL};
    int status = faults_run(arguments);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        cr_skip("strace is not installed or may not trace here (ptrace): no fault was injected");
}

void faults_record(const char *const *command, const char *file, int from, int end, struct fault_trace *trace) {
    static struct fault_call seen[100]; /* how often each name occurred */
    int names = 0, marks = 0;
    char line[1000];
    int status = run_traced(command, (const char *const[]){"-o", file, NULL});
    cr_assert(WIFEXITED(status), "the program fails without faults: %x", status);
    FILE *stream = fopen(file, "r");
    cr_assert(stream);
    trace->count = 0;
    while (marks < end && fgets(line, sizeof line, stream)) {
        size_t length = strspn(line, "abcdefghijklmnopqrstuvwxyz0123456789_");
        if (!length || length >= sizeof seen[0].name || line[length] != '(')
            continue;
        line[length] = '\0';
        int i = 0;
        while (i < names && strcmp(seen[i].name, line) != 0)
            i++;
        if (i == names) {
            cr_assert_lt(names, 100);
            seen[names] = (struct fault_call){.nth = 0};
            strcpy(seen[names++].name, line);
        }
        seen[i].nth++;
        if (strcmp(line, "getppid") == 0)
            marks++;
        else if (marks >= from && strcmp(line, "getrandom") != 0) { /* mkstemp repeats one draw in 22 */
            cr_assert_lt(trace->count, FAULTS_CALLS);
            trace->calls[trace->count++] = seen[i];
        }
    }
    fclose(stream);
    cr_assert_eq(marks, end);
    cr_assert_gt(trace->count, 10, "the program makes more calls than %d", trace->count);
}

int faults_kill(const char *const *command, const struct fault_call *call, char text[FAULTS_TEXT]) {
    snprintf(text, FAULTS_TEXT, "inject=%s:signal=SIGKILL:when=%d", call->name, call->nth);
    return run_traced(command, (const char *const[]){"-o", "/dev/null", "-e", text, NULL});
}

int faults_inject(const char *const *command, const struct fault_call *call, const struct fault *fault, bool alone,
                  char text[FAULTS_TEXT]) {
    char trace[40];
    snprintf(text, FAULTS_TEXT, "inject=%s:%s:when=%d%s", call->name, fault->how, call->nth, fault->lasting);
    snprintf(trace, sizeof trace, "trace=%s", call->name);
    return run_traced(command, (const char *const[]){"-o/dev/null", "-e", trace, "-e", text, alone ? "-f" : NULL,
                                                     "--seccomp-bpf", NULL});
}

static bool is_one_of(const char *name, const char *const *names) {
    while (*names && strcmp(name, *names) != 0)
        names++;
    return *names;
}

bool faults_possible(const struct fault_call *call, const struct fault *fault) {
    static const char *const transfers[] = {"read", "write", NULL};
    /* Callers rely on these never failing. brk reports failure in its own way, which strace cannot imitate. */
    static const char *const never[] = {"getpid", "geteuid", "gettid", "brk", NULL};
    return !is_one_of(call->name, never) && (strncmp(fault->how, "retval", 6) != 0 || is_one_of(call->name, transfers));
}

bool faults_of_memory(const struct fault_call *call) {
    static const char *const names[] = {"mmap", "mremap", "mprotect", "munmap", NULL};
    return is_one_of(call->name, names);
}
