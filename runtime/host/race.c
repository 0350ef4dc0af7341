/* race: see race.h. All of ThreadSanitizer is declared weak: null unless the process is linked with it. */
#include "race.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define WEAK __attribute__((weak))
extern void *__tsan_get_current_fiber(void) WEAK;
extern void *__tsan_create_fiber(unsigned flags) WEAK;
extern void __tsan_destroy_fiber(void *fiber) WEAK;
extern void __tsan_switch_to_fiber(void *fiber, unsigned flags) WEAK;
extern void __tsan_set_fiber_name(void *fiber, const char *name) WEAK;
extern void __tsan_acquire(void *address) WEAK;
extern void __tsan_release(void *address) WEAK;
extern void AnnotateIgnoreReadsBegin(const char *file, int line) WEAK;
extern void AnnotateIgnoreReadsEnd(const char *file, int line) WEAK;
extern void AnnotateIgnoreWritesBegin(const char *file, int line) WEAK;
extern void AnnotateIgnoreWritesEnd(const char *file, int line) WEAK;
extern void __tsan_func_entry(void *pc) WEAK;
extern void __tsan_func_exit(void) WEAK;
extern void __tsan_read_range(void *address, unsigned long size) WEAK;
extern void __tsan_write_range(void *address, unsigned long size) WEAK;
extern int __tsan_get_report_data(void *report, const char **description, int *count, int *stack_count, int *mop_count,
                                  int *loc_count, int *mutex_count, int *thread_count, int *unique_tid_count,
                                  void **sleep_trace, unsigned long trace_size) WEAK;
extern int __tsan_get_report_mop(void *report, unsigned long index, int *tid, void **address, int *size, int *write,
                                 int *atomic, void **trace, unsigned long trace_size) WEAK;
extern int __tsan_get_report_thread(void *report, unsigned long index, int *tid, unsigned long long *os_id,
                                    int *running, const char **name, int *parent_tid, void **trace,
                                    unsigned long trace_size) WEAK;

enum { NO_ORDER = 1 }; /* the scheduler switches, not the kernel */

static _Thread_local struct race *watched;

bool race_present(void) { return __tsan_create_fiber != NULL; }

/* race_hook.c overrides it. */
__attribute__((weak)) bool race_hooked(void) { return false; }

void *race_create(void) { return race_present() ? __tsan_create_fiber(0) : NULL; }

void race_name(void *identity, const char *name) {
    if (identity && __tsan_set_fiber_name)
        __tsan_set_fiber_name(identity, name);
}

void race_destroy(void *identity) {
    if (identity)
        __tsan_destroy_fiber(identity);
}

void *race_current(void) { return race_present() ? __tsan_get_current_fiber() : NULL; }

void race_switch(void *identity) {
    if (identity)
        __tsan_switch_to_fiber(identity, NO_ORDER);
}

void race_release(void *object) {
    if (__tsan_release && object)
        __tsan_release(object);
}

void race_acquire(void *object) {
    if (__tsan_acquire && object)
        __tsan_acquire(object);
}

void race_access(const void *address, size_t size, bool write, const void *pc) {
    if (!race_present() || !size || !__tsan_func_entry || !__tsan_write_range)
        return;
    __tsan_func_entry((void *)(uintptr_t)pc);
    (write ? __tsan_write_range : __tsan_read_range)((void *)(uintptr_t)address, size);
    __tsan_func_exit();
}

void race_ignore_begin(void) {
    if (!AnnotateIgnoreReadsBegin || !AnnotateIgnoreWritesBegin)
        return;
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}

void race_ignore_end(void) {
    if (!AnnotateIgnoreReadsEnd || !AnnotateIgnoreWritesEnd)
        return;
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}

void race_watch(struct race *race) { watched = race; }

/* Looks up the name of thread `tid` in a report. */
static void read_name(void *report, int threads, int tid, char *name, size_t size) {
    snprintf(name, size, "a thread");
    for (int i = 0; __tsan_get_report_thread && i < threads; i++) {
        int found = -1, running, parent;
        unsigned long long os_id;
        const char *known = NULL;
        void *trace[1];
        __tsan_get_report_thread(report, (unsigned long)i, &found, &os_id, &running, &known, &parent, trace, 1);
        if (found == tid && known)
            snprintf(name, size, "%s", known);
    }
}

void race_report(void *report) {
    struct race *race = watched;
    if (!race || race->count++ || !__tsan_get_report_data || !__tsan_get_report_mop)
        return;
    const char *description;
    int count, stacks, accesses = 0, locations, mutexes, threads = 0, unique;
    void *trace[1];
    __tsan_get_report_data(report, &description, &count, &stacks, &accesses, &locations, &mutexes, &threads, &unique,
                           trace, 1);
    for (int i = 0; i < 2 && i < accesses; i++) {
        struct race_access *access = &race->access[i];
        int tid;
        void *address;
        __tsan_get_report_mop(report, (unsigned long)i, &tid, &address, &access->size, &access->write, &access->atomic,
                              access->pc, RACE_FRAMES);
        read_name(report, threads, tid, access->who, sizeof access->who);
    }
}
