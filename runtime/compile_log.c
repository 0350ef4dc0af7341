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

struct span {
    const char *begin, *end; /* null = there is none */
};

static bool span_has(struct span span, const char *word) {
    const char *at = span.begin ? strstr(span.begin, word) : NULL;
    return at && at < span.end;
}

/* The body of a function. What a semicolon follows before a brace is a call of it. */
static struct span body_of(const char *source, struct span name) {
    char declared[256];
    snprintf(declared, sizeof declared, " %.*s(", (int)(name.end - name.begin), name.begin);
    for (const char *at = source; (at = strstr(at, declared)); at++) {
        const char *begin = at + strcspn(at, "{;"), *end = begin;
        if (*begin != '{')
            continue;
        int depth = 0;
        do
            depth += (*end == '{') - (*end == '}');
        while (depth > 0 && *++end);
        return (struct span){begin, end};
    }
    return (struct span){NULL, NULL};
}

/* Does the kernel of this name deal out registers, itself or in a function that it calls? They do it by setmaxnreg or by the wrapper
   around it (templates/target/wgmma_ss_nt.cuh). */
static bool deals_out(const char *source, struct span name) {
    struct span body = body_of(source, name);
    if (span_has(body, "setmaxnreg") || span_has(body, "registers_acquire<"))
        return true;
    for (const char *at = body.begin, *end; at && at < body.end; at = end + (end == at)) {
        end = at + strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789_");
        if (end > at && (*end == '<' || *end == '(') &&
            span_has(body_of(source, (struct span){at, end}), "registers_acquire<"))
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
        if (deals_out(source, (struct span){name, name + strcspn(name, "'")}))
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
