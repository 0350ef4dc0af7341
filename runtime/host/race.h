/* race: what ThreadSanitizer is told and what it says, when the process is linked with it; nothing happens when not.
   Each CUDA thread has an identity of its own there. Never instrumented itself. */
#ifndef ATTILE_HOST_RACE_H
#define ATTILE_HOST_RACE_H

#include <stdbool.h>
#include <stddef.h>

bool race_present(void);
bool race_hooked(void); /* do reports come to race_report? Only where race_hook.c is linked in */
void race_report(void *report);

/* An identity for a stack; null when there is no ThreadSanitizer. */
void *race_create(void);
void race_name(void *identity, const char *name); /* for reports; copied */
void race_destroy(void *identity);                /* accepts null */
void *race_current(void);
void race_switch(void *identity); /* orders nothing */

/* Both accept null, and do nothing then. */
void race_release(void *object); /* what we did so far happens before ... */
void race_acquire(void *object); /* ... what we do from now on */

/* An access by code that is not watched; `pc` is a code address in the statement that it is done for. */
void race_access(const void *address, size_t size, bool write, const void *pc);

/* Between the two, memset and memcpy are not watched either. */
void race_ignore_begin(void);
void race_ignore_end(void);

enum { RACE_FRAMES = 8 };

/* The first race of a launch: two accesses that nothing orders. */
struct race {
    int count; /* of all reports */
    struct race_access {
        char who[64];
        int size, write, atomic;
        void *pc[RACE_FRAMES]; /* innermost first, null-terminated unless full */
    } access[2];
};

/* Note races seen from now on by this OS thread in *race; null = no longer. */
void race_watch(struct race *race);

#endif
