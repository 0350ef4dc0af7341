#include "compile_log.h"

#include <stdio.h>
#include <string.h>

static int spills_between(const char *log, const char *end) {
    int total = 0;
    for (const char *at = log; (at = strstr(at, "bytes stack frame, ")) && at < end; at++) {
        int stores, loads;
        if (sscanf(at, "bytes stack frame, %d bytes spill stores, %d bytes spill loads", &stores, &loads) == 2)
            total += stores + loads;
    }
    return total;
}

int compile_log_spills(const char *log) { return spills_between(log, log + strlen(log)); }

/* Does the kernel of this name deal out registers? Its body, which ends with a brace that begins a line, names setmaxnreg or
   the wrapper around it (templates/target/wgmma_ss_nt.cuh). */
static bool deals_out(const char *source, const char *name, int length) {
    static const char *const words[] = {"setmaxnreg", "registers_acquire<"};
    char declared[256];
    snprintf(declared, sizeof declared, " %.*s(", length, name);
    for (const char *head = source; (head = strstr(head, "__global__")); head++) {
        const char *body = head + strcspn(head, "{"), *at = strstr(head, declared), *end = strstr(body, "\n}");
        if (!at || at > body)
            continue;
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            if ((at = strstr(body, words[i])) && (!end || at < end))
                return true;
    }
    return false;
}

/* Of kernels that deal out registers: others, which may come along, can afford it. */
static int spills_that_matter(const char *source, const char *log) {
    static const char mark[] = "Compiling entry function '";
    const char *at = strstr(log, mark);
    int total = 0;
    if (!at)
        return strstr(source, "setmaxnreg") ? compile_log_spills(log) : 0;
    while (at) {
        const char *name = at + sizeof mark - 1, *next = strstr(name, mark);
        if (deals_out(source, name, (int)strcspn(name, "'")))
            total += spills_between(name, next ? next : name + strlen(name));
        at = next;
    }
    return total;
}

/* Their numbers change from version to version, these words have not. */
static const char *find_advisory(const char *log) {
    static const char *const phrases[] = {"Potential Performance Loss", "is injected in around line"};
    const char *first = NULL;
    for (size_t i = 0; i < sizeof phrases / sizeof *phrases; i++) {
        const char *at = strstr(log, phrases[i]);
        if (at && (!first || at < first))
            first = at;
    }
    return first;
}

bool compile_log_refuses(const char *source, const char *log, struct text *reason) {
    const char *advisory = find_advisory(log);
    int spills = spills_that_matter(source, log);
    if (advisory) {
        while (advisory > log && advisory[-1] != '\n')
            advisory--;
        text_print(reason, "the compiler gave up asynchronous work: %.*s", (int)strcspn(advisory, "\n"), advisory);
        return true;
    }
    if (spills > 0) {
        text_print(reason,
                   "%d bytes of registers are spilled, expected none where setmaxnreg deals them out: smaller "
                   "tiles or fewer stages of work in flight need fewer",
                   spills);
        return true;
    }
    return false;
}
