/* fiber: switches between call stacks within one OS thread, telling the sanitizers about it.
   A context is where one stack stopped. Never instrumented for ThreadSanitizer: a switch made by instrumented code would
   be seen as an ordering. */
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

/* Prepare a stack so that the first switch to it calls run(argument), which must never return. */
void context_make(struct context *context, void *stack_low, size_t stack_size, void (*run)(void *), void *argument);

/* The stack we are on, to be switched away from. */
void context_here(struct context *context);

/* Save where we are in `from` and go on in `to`. */
void context_switch(struct context *from, struct context *to);

/* To be called first on a stack that was just made; `from` is who switched here. */
void context_arrived(struct context *context, struct context *from);

#endif
