#include "pool.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { COUNT = 40 };

/* A compiler that does what the variant's name says. */
static void act(void *context, int channel) {
    struct variant variant;
    (void)context;
    while (worker_receive(channel, &variant, sizeof variant)) {
        struct compiled compiled = {.outcome = COMPILE_GOOD, .registers = variant.block_threads};
        if (strcmp(variant.name, "crash") == 0)
            raise(SIGKILL);
        if (strcmp(variant.name, "exit") == 0)
            _exit(3);
        if (strcmp(variant.name, "hang") == 0)
            for (;;)
                pause();
        if (strcmp(variant.name, "refuse") == 0)
            compiled = (struct compiled){.outcome = COMPILE_REFUSED, .status = ATT_COMPILE_FAILED, .message = "no"};
        if (strcmp(variant.name, "nothing") == 0)
            compiled = (struct compiled){.outcome = COMPILE_REFUSED, .status = ATT_NO_COMPILER, .message = "no NVRTC"};
        worker_send(channel, &compiled, sizeof compiled);
    }
}

static void end_at_once(void *context, int channel) { (void)context, (void)channel; }

static struct variant make(const char *name, int number) {
    struct variant variant = {.block_threads = number};
    snprintf(variant.name, sizeof variant.name, "%s", name);
    return variant;
}

Test(pool, every_variant_gets_its_own_answer) {
    static struct variant variant[COUNT];
    static struct compiled result[COUNT];
    const struct pool_options options = {.jobs = 4, .timeout = 60, .body = act};
    struct text error = {0};
    for (int i = 0; i < COUNT; i++)
        variant[i] = make(i % 3 ? "good" : "refuse", 100 + i);
    cr_assert(pool_compile(&options, variant, COUNT, result, &error), "%s", text_string(&error));
    for (int i = 0; i < COUNT; i++) {
        cr_expect_eq(result[i].outcome, i % 3 ? COMPILE_GOOD : COMPILE_REFUSED);
        if (i % 3)
            cr_expect_eq(result[i].registers, 100 + i);
        else
            cr_expect_str_eq(result[i].message, "no");
    }
}

Test(pool, a_worker_that_dies_or_hangs_is_replaced) {
    static struct variant variant[COUNT];
    static struct compiled result[COUNT];
    static const char *const names[] = {"good", "crash", "good", "exit", "hang", "good"};
    const struct pool_options options = {.jobs = 3, .timeout = 3, .body = act};
    struct text error = {0};
    for (int i = 0; i < 12; i++)
        variant[i] = make(names[i % 6], i);
    cr_assert(pool_compile(&options, variant, 12, result, &error), "%s", text_string(&error));
    for (int i = 0; i < 12; i++) {
        static const struct {
            enum compile_outcome outcome;
            const char *message;
        } expected[] = {{COMPILE_GOOD, ""},
                        {COMPILE_CRASHED, "signal 9"},
                        {COMPILE_GOOD, ""},
                        {COMPILE_CRASHED, "status 3"},
                        {COMPILE_HUNG, "no answer within"},
                        {COMPILE_GOOD, ""}};
        cr_expect_eq(result[i].outcome, expected[i % 6].outcome, "%d: %s", i, result[i].message);
        cr_expect_not_null(strstr(result[i].message, expected[i % 6].message), "%d: %s", i, result[i].message);
    }
    cr_expect_eq(waitpid(-1, NULL, WNOHANG), -1, "no worker is left");
}

Test(pool, without_a_compiler_it_says_so_and_ends) {
    struct variant variant[] = {make("good", 1), make("nothing", 2), make("good", 3)};
    struct compiled result[3];
    const struct pool_options options = {.jobs = 1, .timeout = 60, .body = act};
    struct text error = {0};
    cr_expect_not(pool_compile(&options, variant, 3, result, &error));
    cr_expect_str_eq(text_string(&error), "no NVRTC");
    cr_expect_eq(result[0].outcome, COMPILE_GOOD, "what was done stays");
    cr_expect_eq(result[2].outcome, COMPILE_NOT_TRIED);
    text_free(&error);
}

Test(pool, workers_that_end_at_once_are_no_endless_loop) {
    struct variant variant[] = {make("good", 1), make("good", 2)};
    struct compiled result[2];
    const struct pool_options options = {.jobs = 2, .timeout = 60, .body = end_at_once};
    struct text error = {0};
    bool good = pool_compile(&options, variant, 2, result, &error);
    for (int i = 0; good && i < 2; i++)
        cr_expect_eq(result[i].outcome, COMPILE_CRASHED);
    cr_expect(good || error.size > 0);
    text_free(&error);
}

static int ticks;
static bool after_a_while(void) { return ++ticks > 3; }

Test(pool, an_interrupt_keeps_what_is_done) {
    struct variant variant[] = {make("good", 1), make("hang", 2), make("good", 3)};
    struct compiled result[3];
    const struct pool_options options = {.jobs = 1, .timeout = 60, .body = act, .interrupted = after_a_while};
    struct text error = {0};
    cr_assert(pool_compile(&options, variant, 3, result, &error));
    cr_expect_eq(result[0].outcome, COMPILE_GOOD);
    cr_expect_eq(result[1].outcome, COMPILE_NOT_TRIED);
    cr_expect_eq(waitpid(-1, NULL, WNOHANG), -1, "no worker is left");
}

Test(pool, nothing_to_compile_is_done_at_once) {
    struct text error = {0};
    const struct pool_options options = {.timeout = 60, .body = act};
    cr_expect(pool_compile(&options, NULL, 0, NULL, &error));
}
