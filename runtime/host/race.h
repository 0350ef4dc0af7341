/* race: calls ThreadSanitizer and receives its reports. Without ThreadSanitizer in the process nothing here has any
   effect. Each CUDA thread is a ThreadSanitizer fiber, its identity. ThreadSanitizer must not instrument this code. */
#ifndef ATTILE_HOST_RACE_H
#define ATTILE_HOST_RACE_H

#include <stdbool.h>
#include <stddef.h>

bool race_present(void);
bool race_hooked(void); /* do reports reach race_report? Only if race_hook.c is linked in */
void race_report(void *report);

/* Creates an identity for a stack; null without ThreadSanitizer. */
void *race_create(void);
void race_name(void *identity, const char *name); /* for reports; copied */
void race_destroy(void *identity);                /* accepts null */
void *race_current(void);
void race_switch(void *identity); /* creates no order */

/* What the current identity did before a release happens before what others do after an acquire of the same object.
   Null: no effect. */
void race_release(void *object);
void race_acquire(void *object);

/* Reports an access by code that is not instrumented. `pc` is a code address in the statement that causes it. */
void race_access(const void *address, size_t size, bool write, const void *pc);

/* Between the two, ThreadSanitizer ignores memset and memcpy as well. */
void race_ignore_begin(void);
void race_ignore_end(void);

enum { RACE_FRAMES = 8 };

/* The first race of a launch: two unordered accesses. */
struct race {
    int count; /* number of reports */
    struct race_access {
        char who[64];
        int size, write, atomic;
        void *pc[RACE_FRAMES]; /* innermost first, null-terminated unless full */
    } access[2];
};

/* From now on, races that this OS thread sees are recorded in *race; null = nowhere. */
void race_watch(struct race *race);

#endif
