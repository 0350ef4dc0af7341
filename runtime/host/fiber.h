/* fiber: switches between call stacks within one OS thread and tells the sanitizers. A context is the point at which a
   stack was suspended. ThreadSanitizer must not instrument this code: it would take a switch in instrumented code for
   synchronisation. */
#ifndef ATTILE_FIBER_H
#define ATTILE_FIBER_H

#include <stddef.h>

#if !defined(__x86_64__) && !defined(__aarch64__)
#define FIBER_UCONTEXT 1
#endif
#ifdef FIBER_UCONTEXT
#include <ucontext.h>
#endif

struct context {
    void *stack_pointer;
#ifdef FIBER_UCONTEXT
    ucontext_t ucontext;
#endif
    const void *stack_low; /* for AddressSanitizer; null = not known yet (a thread's own stack) */
    size_t stack_size;
    void *asan_stack;
    void *race; /* identity for ThreadSanitizer, see race.h; null = there is none */
};

/* Prepares a stack so that the first switch to it calls run(argument), which must never return. */
void context_make(struct context *context, void *stack_low, size_t stack_size, void (*run)(void *), void *argument);

/* Makes a context for the current stack, to switch away from. */
void context_here(struct context *context);

/* Saves the current point of execution in `from` and continues at `to`. */
void context_switch(struct context *from, struct context *to);

/* Must be the first call on a new stack; `from` is the context that switched here. */
void context_arrived(struct context *context, struct context *from);

#endif
