#include "compile_log.h"

#include <stdio.h>
#include <string.h>

int compile_log_spills(const char *log) {
    int total = 0;
    for (const char *at = log; (at = strstr(at, "bytes stack frame, ")); at++) {
        int stores, loads;
        if (sscanf(at, "bytes stack frame, %d bytes spill stores, %d bytes spill loads", &stores, &loads) == 2)
            total += stores + loads;
    }
    return total;
}

/* The numbers of these advisories change from version to version, these words have not. */
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

bool compile_log_refuses(const char *log, struct text *reason) {
    const char *advisory = find_advisory(log);
    if (!advisory)
        return false;
    while (advisory > log && advisory[-1] != '\n')
        advisory--;
    text_print(reason, "the compiler gave up asynchronous work: %.*s", (int)strcspn(advisory, "\n"), advisory);
    return true;
}
