/* fiber: see fiber.h. A switch saves the registers that a function call must preserve, and nothing else. */
#include "fiber.h"
#include "race.h"

#include <stdint.h>

/* Weak: null unless the process is linked with the sanitizer. */
#define WEAK __attribute__((weak))
extern void __sanitizer_start_switch_fiber(void **save, const void *bottom, size_t size) WEAK;
extern void __sanitizer_finish_switch_fiber(void *save, const void **bottom, size_t *size) WEAK;

extern void __asan_unpoison_memory_region(const volatile void *low, size_t size) WEAK;

/* After a fault the stack still has AddressSanitizer's marks of the abandoned frames. */
static void forget_frames(void *stack_low, size_t stack_size) {
    if (__asan_unpoison_memory_region)
        __asan_unpoison_memory_region(stack_low, stack_size);
}

void context_here(struct context *context) { *context = (struct context){.race = race_current()}; }

static void jump(struct context *from, struct context *to);

void context_switch(struct context *from, struct context *to) {
    race_switch(to->race);
    if (__sanitizer_start_switch_fiber)
        __sanitizer_start_switch_fiber(&from->asan_stack, to->stack_low, to->stack_size);
    jump(from, to);
    if (__sanitizer_finish_switch_fiber)
        __sanitizer_finish_switch_fiber(from->asan_stack, 0, 0);
}

void context_arrived(struct context *context, struct context *from) {
    if (__sanitizer_finish_switch_fiber)
        __sanitizer_finish_switch_fiber(context->asan_stack, &from->stack_low, &from->stack_size);
}

#ifdef FIBER_UCONTEXT

static void jump(struct context *from, struct context *to) { swapcontext(&from->ucontext, &to->ucontext); }

static void start(unsigned run_high, unsigned run_low, unsigned argument_high, unsigned argument_low) {
    uint64_t run = (uint64_t)run_high << 32 | run_low, argument = (uint64_t)argument_high << 32 | argument_low;
    ((void (*)(void *))(uintptr_t)run)((void *)(uintptr_t)argument);
}

void context_make(struct context *context, void *stack_low, size_t stack_size, void (*run)(void *), void *argument) {
    void *race = context->race;
    forget_frames(stack_low, stack_size);
    *context = (struct context){.stack_low = stack_low, .stack_size = stack_size, .race = race};
    getcontext(&context->ucontext);
    context->ucontext.uc_stack.ss_sp = stack_low;
    context->ucontext.uc_stack.ss_size = stack_size;
    uint64_t run_bits = (uintptr_t)run, argument_bits = (uintptr_t)argument;
    makecontext(&context->ucontext, (void (*)(void))start, 4, (unsigned)(run_bits >> 32), (unsigned)run_bits,
                (unsigned)(argument_bits >> 32), (unsigned)argument_bits);
}

#else

/* Pushes the preserved registers, exchanges stack pointers, pops the registers of the other stack. */
void attile_fiber_jump(void **from, void *to);
/* The return address of a fresh stack: calls the function in the second saved register with the first as argument. */
void attile_fiber_start(void);

#if defined(__x86_64__)
enum { SAVED = 9, SAVED_ARGUMENT = 4, SAVED_RUN = 3, SAVED_RETURN = 6 }; /* 8-byte words from the stack pointer up */
__asm__(".text\n"
        ".globl attile_fiber_jump\n.hidden attile_fiber_jump\n.type attile_fiber_jump,@function\n"
        "attile_fiber_jump:\n"
        "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n    pushq %r13\n    pushq %r14\n    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n    popq %rbx\n    popq %rbp\n"
        "    ret\n"
        ".size attile_fiber_jump,.-attile_fiber_jump\n"
        ".globl attile_fiber_start\n.hidden attile_fiber_start\n.type attile_fiber_start,@function\n"
        "attile_fiber_start:\n"
        "    .cfi_startproc\n    .cfi_undefined rip\n"
        "    movq %rbx, %rdi\n"
        "    call *%r12\n"
        "    ud2\n"
        "    .cfi_endproc\n"
        ".size attile_fiber_start,.-attile_fiber_start\n");
#else
enum { SAVED = 20, SAVED_ARGUMENT = 0, SAVED_RUN = 1, SAVED_RETURN = 11 };
__asm__(".text\n"
        ".globl attile_fiber_jump\n.hidden attile_fiber_jump\n.type attile_fiber_jump,@function\n"
        "attile_fiber_jump:\n"
        "    sub sp, sp, #160\n"
        "    stp x19, x20, [sp, #0]\n    stp x21, x22, [sp, #16]\n    stp x23, x24, [sp, #32]\n"
        "    stp x25, x26, [sp, #48]\n    stp x27, x28, [sp, #64]\n    stp x29, x30, [sp, #80]\n"
        "    stp d8, d9, [sp, #96]\n    stp d10, d11, [sp, #112]\n"
        "    stp d12, d13, [sp, #128]\n    stp d14, d15, [sp, #144]\n"
        "    mov x9, sp\n    str x9, [x0]\n    mov sp, x1\n"
        "    ldp x19, x20, [sp, #0]\n    ldp x21, x22, [sp, #16]\n    ldp x23, x24, [sp, #32]\n"
        "    ldp x25, x26, [sp, #48]\n    ldp x27, x28, [sp, #64]\n    ldp x29, x30, [sp, #80]\n"
        "    ldp d8, d9, [sp, #96]\n    ldp d10, d11, [sp, #112]\n"
        "    ldp d12, d13, [sp, #128]\n    ldp d14, d15, [sp, #144]\n"
        "    add sp, sp, #160\n"
        "    ret\n"
        ".size attile_fiber_jump,.-attile_fiber_jump\n"
        ".globl attile_fiber_start\n.hidden attile_fiber_start\n.type attile_fiber_start,@function\n"
        "attile_fiber_start:\n"
        "    .cfi_startproc\n    .cfi_undefined x30\n"
        "    mov x0, x19\n"
        "    blr x20\n"
        "    brk #1\n"
        "    .cfi_endproc\n"
        ".size attile_fiber_start,.-attile_fiber_start\n");
#endif

static void jump(struct context *from, struct context *to) {
    attile_fiber_jump(&from->stack_pointer, to->stack_pointer);
}

void context_make(struct context *context, void *stack_low, size_t stack_size, void (*run)(void *), void *argument) {
    void *race = context->race;
    forget_frames(stack_low, stack_size);
    uintptr_t top = ((uintptr_t)stack_low + stack_size) & ~(uintptr_t)15;
    uintptr_t *saved = (uintptr_t *)top - SAVED;
    for (int i = 0; i < SAVED; i++)
        saved[i] = 0;
    saved[SAVED_ARGUMENT] = (uintptr_t)argument;
    saved[SAVED_RUN] = (uintptr_t)run;
    saved[SAVED_RETURN] = (uintptr_t)attile_fiber_start;
    *context = (struct context){.stack_pointer = saved, .stack_low = stack_low, .stack_size = stack_size, .race = race};
}

#endif
