/* Stacks must preserve everything that a function call preserves, in whatever order they are switched. */
#include "host/fiber.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>

enum { STACK = 64 * 1024, FIBERS = 5, ROUNDS = 100 };

static struct context main_context, contexts[FIBERS];
static int visits[FIBERS * ROUNDS], visit_count;
static double sums[FIBERS];
static uintptr_t misalignment;

static void run(void *argument) {
    int id = (int)(intptr_t)argument;
    context_arrived(&contexts[id], &main_context);
    _Alignas(16) volatile char aligned = 0;
    misalignment |= (uintptr_t)&aligned % 16;
    /* More live values than registers can hold. */
    double a = id, b = 2 * id, c = 3 * id, sum = 0;
    long i = id, j = 10 * id, k = 100 * id;
    for (int round = 0; round < ROUNDS; round++) {
        visits[visit_count++] = id;
        context_switch(&contexts[id], &main_context);
        sum += a + b + c + (double)(i + j + k);
        a += 1, b += 1, c += 1, i++, j++, k++;
    }
    sums[id] = sum;
    context_switch(&contexts[id], &main_context);
    abort();
}

Test(fiber, stacks_take_turns_and_keep_their_values) {
    context_here(&main_context);
    char *stack[FIBERS];
    for (int i = 0; i < FIBERS; i++) {
        stack[i] = malloc(STACK);
        cr_assert(stack[i]);
        context_make(&contexts[i], stack[i], STACK, run, (void *)(intptr_t)i);
    }
    for (int round = 0; round <= ROUNDS; round++)
        for (int i = 0; i < FIBERS; i++)
            context_switch(&main_context, &contexts[(i * 2 + round) % FIBERS]);
    cr_assert_eq(visit_count, FIBERS * ROUNDS);
    for (int i = 0; i < visit_count; i++)
        cr_assert_eq(visits[i], (i % FIBERS * 2 + i / FIBERS) % FIBERS, "visit %d", i);
    for (int i = 0; i < FIBERS; i++) {
        cr_assert_eq(sums[i], ROUNDS * 117.0 * i + 6 * (ROUNDS - 1) * ROUNDS / 2, "fiber %d: %g", i, sums[i]);
        free(stack[i]);
    }
    cr_assert_eq(misalignment, 0);
}
