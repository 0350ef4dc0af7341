/* The tuner's loop, with simulated workers: what is measured is written, what fails costs a worker, and whatever ends a
   tuner, the next one continues where it was. */
#include "tuner_run.h"
#include "file.h"
#include "helper_folder.h"
#include "winners.h"

#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { VARIANTS = 16, SHAPES = 3, GPUS = 2 };

TestSuite(tuner, .init = folder_enter, .fini = folder_leave);

static void nap(double seconds) {
    nanosleep(&(struct timespec){(time_t)seconds, (long)(1e9 * (seconds - floor(seconds)))}, NULL);
}

/* --- workers that pretend ----------------------------------------------------------------------------------------- */

/* The kernel's threads decide what happens: a multiple of 96 causes trouble, others take a time of their own. */
static double pretended_time(const struct order *order) {
    return 1e-3 * (1 + order->variant.knobs.threads * 7 % 101) * (double)order->shape.len_q;
}

static double pause_seconds = 2e-4; /* inherited by the workers: duration of a measurement */
static const char *trouble;         /* inherited by the workers: what happens to kernels of 96 and 192 threads */

static void pretend(void *context, int channel) {
    const struct stand_options *options = context;
    struct reply reply = {.status = ATT_OK};
    struct order order;
    record_clear(&reply.record);
    if (options->session.ordinal >= GPUS) {
        reply.status = ATT_NO_DEVICE;
        strcpy(reply.record.status, "session");
        worker_send(channel, &reply, sizeof reply);
        return;
    }
    strcpy(reply.record.device, "pretended GPU");
    strcpy(reply.record.arch, "sm_00");
    strcpy(reply.record.status, "ok");
    while (worker_send(channel, &reply, sizeof reply) && worker_receive(channel, &order, sizeof order)) {
        bool bad = trouble && order.variant.knobs.threads % 96 == 0;
        record_clear(&reply.record);
        reply.status = ATT_OK;
        strcpy(reply.record.status, "ok");
        if (options->compile_for && bad && strcmp(trouble, "compile") == 0)
            strcpy(reply.record.status, "compile");
        if (options->compile_for)
            continue;
        nap(pause_seconds);
        reply.record.cold_median = reply.record.warm_median = pretended_time(&order);
        if (!bad)
            continue;
        if (strcmp(trouble, "crash") == 0)
            raise(SIGKILL);
        if (strcmp(trouble, "hang") == 0)
            nap(1000);
        strcpy(reply.record.status, trouble);
        if (strcmp(trouble, "fault") == 0) { /* reports it, and ends */
            worker_send(channel, &reply, sizeof reply);
            return;
        }
    }
}

static void fails_to_open(void *context, int channel) {
    struct reply reply = {.status = ATT_NO_DEVICE};
    (void)context;
    record_clear(&reply.record);
    strcpy(reply.record.status, "session");
    strcpy(reply.record.error, "no GPU today");
    worker_send(channel, &reply, sizeof reply);
}

static void dies_at_once(void *context, int channel) {
    (void)context;
    (void)channel;
    raise(SIGKILL);
}

/* --- a tuner to try ----------------------------------------------------------------------------------------------- */

static struct tuner_options options(double budget) {
    return (struct tuner_options){.one_gpu = true, .jobs = 1, .budget = budget, .timeout = 20, .body = pretend};
}

static void fill(struct tuner *tuner, const struct template_set *set, int first_shape, int step) {
    for (int s = first_shape; s < SHAPES; s += step) {
        struct shape shape = {.batch = 1, .heads = 1, .kv_heads = 1, .len_q = 1 + s, .len_kv = 64};
        char text[64];
        snprintf(text, sizeof text, "batch=1,heads=1,kv_heads=1,len_q=%d,len_kv=64", 1 + s);
        cr_assert(tuner_add_cell(tuner, "family=attention_forward dtype=fp32 head_dim=16", &shape, text));
        for (int i = 1; i <= VARIANTS; i++) {
            struct knobs knobs = knobs_default();
            struct variant variant;
            char digest[TUNER_DIGEST];
            knobs.family = family_attention_forward;
            knobs.algorithm = algorithm_flash;
            knobs.head_dim = 16;
            knobs.threads = 32 * i;
            cr_assert(variant_complete(set, &knobs, false, &variant), "%s", variant.reason);
            cr_assert(tuner_digest(set, &variant, digest));
            cr_assert(tuner_add_candidate(tuner, &variant, digest));
        }
    }
    cr_assert(tuner_begin(tuner));
}

static struct template_set *templates(void) {
    struct diag diag = {0};
    struct template_set *set = template_set_open(NULL, NULL, &diag);
    cr_assert(set);
    return set;
}

struct outcome {
    enum tuner_end end;
    enum att_status status;
    struct text error;
    int measured, failed, recalled, foreign, gpus;
};

static struct outcome run_part(const char *path, struct tuner_options how, int first_shape, int step) {
    struct outcome outcome = {.end = TUNER_FAILED};
    struct tuner tuner;
    struct journal journal;
    struct template_set *set = templates();
    tuner_open(&tuner, &how);
    cr_assert(journal_open(&journal, path, &outcome.error), "%s", text_string(&outcome.error));
    if (tuner_connect(&tuner, &outcome.status, &outcome.error)) {
        fill(&tuner, set, first_shape, step);
        outcome.end = tuner_run(&tuner, &journal, &outcome.status, &outcome.error);
    }
    outcome.measured = tuner.measured;
    outcome.failed = tuner.failed;
    outcome.recalled = tuner.recalled;
    outcome.foreign = tuner.foreign;
    outcome.gpus = tuner.gpus;
    tuner_disconnect(&tuner);
    tuner_close(&tuner);
    journal_close(&journal);
    template_set_close(set);
    return outcome;
}

static struct outcome run(const char *path, struct tuner_options how) { return run_part(path, how, 0, 1); }

static struct results read_results(const char *path) {
    struct results results = {0};
    struct text error = {0};
    int strange = 0;
    cr_assert(journal_read_file(path, results_add, &results, &strange, &error), "%s", text_string(&error));
    cr_assert_eq(strange, 0, "%d lines of %s are no records", strange, path);
    cr_assert_not(results.failed);
    return results;
}

/* Returns the text of a table made from the file. */
static char *table_of(const char *path) {
    struct results results = read_results(path);
    struct template_set *set = templates();
    struct tuned *tuned = tuned_new("t", "pretended GPU", "");
    struct winners_counts counts;
    struct text text = {0};
    cr_assert_eq(results.settings, 1);
    cr_assert(winners_fill(tuned, &results, 0, set, &counts));
    tuned_write(tuned, &text);
    tuned_free(tuned);
    template_set_close(set);
    results_free(&results);
    return text.bytes;
}

static int lines_of(const char *path) {
    struct text content = {0}, error = {0};
    int lines = 0;
    cr_assert(file_load(path, 1 << 26, &content, &error), "%s", text_string(&error));
    for (size_t i = 0; i < content.size; i++)
        lines += content.bytes[i] == '\n';
    text_free(&content);
    return lines;
}

/* --- what it does ------------------------------------------------------------------------------------------------- */

static int best_threads(void) {
    int best = 0;
    for (int i = 1; i <= VARIANTS; i++)
        if (!best || 32 * i * 7 % 101 < best * 7 % 101)
            best = 32 * i;
    return best;
}

Test(tuner, finds_the_fastest_of_every_cell) {
    struct outcome outcome = run("r.jsonl", options(30));
    char expected[32];
    cr_assert_eq(outcome.end, TUNER_DONE, "%s", text_string(&outcome.error));
    cr_expect_eq(outcome.measured, lines_of("r.jsonl"));
    char *table = table_of("r.jsonl");
    snprintf(expected, sizeof expected, "threads: %d,", best_threads());
    int rows = 0;
    for (const char *at = table; (at = strstr(at, expected)); at++)
        rows++;
    cr_expect_eq(rows, SHAPES, "%s", table);
    free(table);
}

Test(tuner, has_nothing_left_to_do_when_it_is_done) {
    struct outcome first = run("r.jsonl", options(30)), second = run("r.jsonl", options(30));
    cr_expect_eq(second.end, TUNER_DONE);
    cr_expect_eq(second.measured, 0);
    cr_expect_eq(second.recalled, first.measured);
    cr_expect_eq(lines_of("r.jsonl"), first.measured);
}

Test(tuner, measures_the_same_with_several_compilers_and_cells_in_parts) {
    struct tuner_options many = options(30);
    many.jobs = 4;
    cr_assert_eq(run("whole.jsonl", options(30)).end, TUNER_DONE);
    cr_assert_eq(run_part("part.jsonl", many, 0, 2).end, TUNER_DONE);
    cr_assert_eq(run_part("part.jsonl", many, 1, 2).end, TUNER_DONE);
    char *whole = table_of("whole.jsonl"), *parts = table_of("part.jsonl");
    cr_expect_eq(lines_of("whole.jsonl"), lines_of("part.jsonl"));
    cr_expect_eq(strlen(whole), strlen(parts)); /* the rows, in any order */
    free(whole);
    free(parts);
}

Test(tuner, measures_the_same_on_several_gpus) {
    struct tuner_options all = options(30);
    all.one_gpu = false;
    struct outcome one = run("one.jsonl", options(30)), several = run("all.jsonl", all);
    cr_assert_eq(several.end, TUNER_DONE, "%s", text_string(&several.error));
    cr_expect_eq(one.gpus, 1);
    cr_expect_eq(several.gpus, GPUS);
    cr_expect_eq(several.measured, one.measured);
    char *first = table_of("one.jsonl"), *second = table_of("all.jsonl");
    cr_expect_eq(strlen(first), strlen(second)); /* the rows, in any order */
    free(first);
    free(second);
}

static off_t size_of(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 ? info.st_size : 0;
}

/* Waits until the file has `size` bytes or the child has ended. */
static void wait_for_bytes(pid_t child, const char *path, off_t size) {
    siginfo_t info = {0};
    while (size_of(path) < size && waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && !info.si_pid)
        nap(2e-4);
}

/* Kills the tuner before it measures, or within the next lines of its file. The file only ever grows, and in the end it
   says what it would have said undisturbed. */
Test(tuner, loses_nothing_when_it_is_killed_fifty_times, .timeout = 120) {
    struct outcome undisturbed = run("whole.jsonl", options(60));
    cr_assert_eq(undisturbed.end, TUNER_DONE);
    off_t line = size_of("whole.jsonl") / undisturbed.measured;
    pause_seconds = 0.01; /* of each measurement: long beside the naps of wait_for_bytes */
    struct text before = {0}, after = {0}, error = {0};
    unsigned seed = 20;
    int kills = 0, progress = 0;
    for (int attempt = 0; attempt < 50; attempt++) {
        pid_t child = fork();
        if (child == 0) {
            run("killed.jsonl", options(60));
            _exit(0);
        }
        if (attempt % 3)
            wait_for_bytes(child, "killed.jsonl", (off_t)before.size + 1 + rand_r(&seed) % line);
        else
            nap(0.01 * rand_r(&seed) / RAND_MAX);
        kill(child, SIGKILL);
        int status;
        cr_assert_eq(waitpid(child, &status, 0), child);
        kills += WIFSIGNALED(status);
        if (access("killed.jsonl", F_OK) != 0)
            continue;
        cr_assert(file_load("killed.jsonl", 1 << 26, &after, &error));
        size_t whole = before.size; /* up to the last newline: this part must never change */
        while (whole > 0 && before.bytes[whole - 1] != '\n')
            whole--;
        cr_assert_geq(after.size, whole, "lines were lost");
        cr_assert(whole == 0 || memcmp(before.bytes, after.bytes, whole) == 0, "lines were changed");
        progress += after.size > before.size;
        text_free(&before);
        before = after;
        after = (struct text){0};
    }
    cr_expect_gt(kills, 15, "%d of 50 were killed before they were done", kills);
    cr_expect_gt(progress, 3, "%d of 50 came to measure something", progress);
    pause_seconds = 2e-4;
    cr_assert_eq(run("killed.jsonl", options(60)).end, TUNER_DONE);
    char *killed = table_of("killed.jsonl"), *whole = table_of("whole.jsonl");
    cr_expect_str_eq(killed, whole);
    cr_expect_eq(lines_of("killed.jsonl"), undisturbed.measured, "every measurement is there, and once");
    free(killed);
    free(whole);
    text_free(&before);
}

static int threads_of(const struct result_kernel *kernel) {
    return atoi(strstr(kernel->schedule, "threads=") + strlen("threads="));
}

/* --- trouble ------------------------------------------------------------------------------------------------------ */

Test(tuner, survives_kernels_that_fail_each_in_its_way, .timeout = 120) {
    static const char *const troubles[] = {"crash", "fault", "wrong", "refused", "compile", "hang"};
    for (size_t i = 0; i < sizeof troubles / sizeof *troubles; i++) {
        struct tuner_options how = options(300);
        bool hangs = strcmp(troubles[i], "hang") == 0, refused = strcmp(troubles[i], "refused") == 0;
        how.timeout = hangs ? 2 : 20; /* must not catch one that only waits for a busy processor */
        trouble = troubles[i];
        struct outcome outcome = run(troubles[i], how);
        cr_expect_eq(outcome.end, TUNER_DONE, "%s: %s", troubles[i], text_string(&outcome.error));
        struct results results = read_results(troubles[i]);
        int failed = 0;
        for (int c = 0; c < results.cells; c++)
            for (int k = 0; k < results.cell[c].kernels; k++) {
                const struct result_kernel *kernel = &results.cell[c].kernel[k];
                cr_expect_eq(kernel->status != NULL, threads_of(kernel) % 96 == 0, "%s: %s is %s", troubles[i],
                             kernel->schedule, kernel->status ? kernel->status : "ok");
                if (kernel->status)
                    cr_expect_str_eq(kernel->status, troubles[i]);
                failed += kernel->status != NULL;
            }
        cr_expect_eq(failed, refused ? 5 * SHAPES : 5, "%s: once a kernel, wherever it showed", troubles[i]);
        cr_expect_eq(outcome.failed, failed);
        results_free(&results);
        struct outcome again = run(troubles[i], how); /* what failed is not tried again */
        cr_expect_eq(again.measured + again.failed, 0, "%s", troubles[i]);
        trouble = NULL;
    }
}

Test(tuner, puts_faulty_kernels_on_the_deny_list) {
    trouble = "wrong";
    cr_assert_eq(run("r.jsonl", options(30)).end, TUNER_DONE);
    char *table = table_of("r.jsonl");
    cr_expect(strstr(table, "deny:"), "%s", table);
    cr_expect(strstr(table, "because: \"wrong"), "%s", table);
    free(table);
}

Test(tuner, says_what_is_wrong_when_there_is_no_device) {
    struct tuner_options how = options(5);
    how.body = fails_to_open;
    struct outcome outcome = run("r.jsonl", how);
    cr_expect_eq(outcome.end, TUNER_FAILED);
    cr_expect_eq(outcome.status, ATT_NO_DEVICE);
    cr_expect_str_eq(text_string(&outcome.error), "no GPU today");
    text_free(&outcome.error);
    how.body = dies_at_once;
    outcome = run("r.jsonl", how);
    cr_expect_eq(outcome.end, TUNER_FAILED);
    cr_expect(strstr(text_string(&outcome.error), "died"), "%s", text_string(&outcome.error));
    text_free(&outcome.error);
}

Test(tuner, goes_on_later_when_the_budget_was_too_short) {
    struct outcome outcome = run("r.jsonl", options(1e-6));
    cr_expect_eq(outcome.end, TUNER_TOO_SHORT);
    cr_expect_eq(outcome.measured, 0);
    cr_expect_eq(run("r.jsonl", options(30)).end, TUNER_DONE);
}

static bool at_once(void) { return true; }

Test(tuner, stops_when_it_is_interrupted) {
    struct tuner_options how = options(30);
    how.interrupted = at_once;
    cr_expect_eq(run("r.jsonl", how).end, TUNER_INTERRUPTED);
    cr_expect_eq(run("r.jsonl", options(30)).end, TUNER_DONE);
}

Test(tuner, never_mixes_what_other_devices_or_versions_measured) {
    struct outcome first = run("r.jsonl", options(30));
    struct text content = {0}, error = {0};
    cr_assert(file_load("r.jsonl", 1 << 26, &content, &error));
    for (char *at = content.bytes; (at = strstr(at, "pretended GPU")); at++)
        at[0] = 'X'; /* measured elsewhere */
    cr_assert(file_save("other.jsonl", content.bytes, content.size, NULL, &error));
    struct outcome second = run("other.jsonl", options(30));
    cr_expect_eq(second.end, TUNER_DONE);
    cr_expect_eq(second.foreign, first.measured);
    cr_expect_eq(second.recalled, 0);
    cr_expect_eq(second.measured, first.measured);
    cr_expect_eq(lines_of("other.jsonl"), 2 * first.measured, "both are kept");
    text_free(&content);
}
