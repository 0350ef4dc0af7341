/* From measurements to a tuned table: who wins, who is set aside, who is taken out of service. */
#include "tuner.h"
#include "winners.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static const char problem[] = "family=attention_forward dtype=fp32 head_dim=16";
static const char shape[] = "batch=1,heads=2,kv_heads=2,len_q=64,len_kv=64";

static struct template_set *set;

static void enter(void) {
    struct diag diag = {0};
    set = template_set_open(NULL, NULL, &diag);
    cr_assert(set, "%s", text_string(&diag.text));
}

static void leave(void) { template_set_close(set); }

TestSuite(winners, .init = enter, .fini = leave);

/* The flash algorithm with this many threads; its template would choose 128. */
static struct variant flash(int threads, char digest[TUNER_DIGEST]) {
    struct knobs knobs = knobs_default();
    struct variant variant;
    knobs.family = family_attention_forward;
    knobs.head_dim = 16;
    knobs.algorithm = algorithm_flash;
    knobs.threads = threads;
    cr_assert(variant_complete(set, &knobs, false, &variant), "%s", variant.reason);
    cr_assert(tuner_digest(set, &variant, digest));
    return variant;
}

static void measured_on(struct results *results, const char *device, int threads, double seconds, const char *status) {
    struct record record;
    char digest[TUNER_DIGEST];
    struct variant variant = flash(threads, digest);
    record_clear(&record);
    strcpy(record.device, device);
    strcpy(record.generator, GEN_VERSION);
    strcpy(record.problem, problem);
    strcpy(record.shape, shape);
    strcpy(record.target, "any");
    snprintf(record.schedule, sizeof record.schedule, "algorithm=flash threads=%d", threads);
    strcpy(record.variant, variant.name);
    strcpy(record.source, digest);
    strcpy(record.status, status);
    record.cold_median = seconds;
    record.warm_median = 1 - seconds;
    results_add(results, &record);
}

static void measured(struct results *results, int threads, double seconds, const char *status) {
    measured_on(results, "GPU", threads, seconds, status);
}

static int threads_of(const struct results *results, int kernel) {
    int threads = 0;
    if (kernel >= 0)
        sscanf(strstr(results->cell[0].kernel[kernel].schedule, "threads="), "threads=%d", &threads);
    return threads;
}

static struct winner winner_of(const struct results *results) {
    struct winner winner;
    cr_assert_eq(results->cells, 1);
    cr_assert(winners_of(&results->cell[0], set, &winner));
    return winner;
}

Test(winners, are_the_fastest) {
    struct results results = {0};
    measured(&results, 128, 0.3, "ok");
    measured(&results, 64, 0.2, "ok");
    measured(&results, 256, 0.25, "ok");
    struct winner winner = winner_of(&results);
    cr_expect_eq(threads_of(&results, winner.kernel), 64);
    cr_expect_eq(threads_of(&results, winner.runner_up), 256);
    cr_expect_float_eq(winner.margin, 1.25, 1e-6);
    cr_expect_float_eq(winner.seconds, 0.2, 1e-6);
    results_free(&results);
    results = (struct results){.warm = true}; /* the other times decide */
    measured(&results, 128, 0.3, "ok");
    measured(&results, 64, 0.2, "ok");
    cr_expect_eq(threads_of(&results, winner_of(&results).kernel), 128);
    results_free(&results);
}

Test(winners, are_the_templates_own_when_that_is_as_good) {
    struct results results = {0};
    measured(&results, 64, 0.2, "ok");
    measured(&results, 128, 0.203, "ok");
    struct winner winner = winner_of(&results);
    cr_expect_eq(threads_of(&results, winner.kernel), 128);
    cr_expect_eq(threads_of(&results, winner.runner_up), 64);
    cr_expect_float_eq(winner.margin, 1, 1e-9);
    results_free(&results);
    measured(&results, 64, 0.2, "ok");
    measured(&results, 128, 0.205, "ok");
    cr_expect_eq(threads_of(&results, winner_of(&results).kernel), 64);
    results_free(&results);
}

Test(winners, have_not_failed_and_have_their_present_source) {
    struct results results = {0};
    measured(&results, 32, 0.1, "wrong");
    measured(&results, 64, 0.1, "ok");
    measured(&results, 256, 0.3, "ok");
    strcpy(results.cell[0].kernel[1].source, "0123456789abcdef"); /* the template was a different one then */
    struct winner winner = winner_of(&results);
    cr_expect_eq(threads_of(&results, winner.kernel), 256);
    cr_expect_eq(winner.stale, 1);
    cr_expect_eq(winner.runner_up, -1);
    cr_expect_eq(winner.margin, 0);
    cr_assert(winners_of(&results.cell[0], NULL, &winner));
    cr_expect_eq(threads_of(&results, winner.kernel), 64, "without templates every source counts");
    results_free(&results);
}

Test(winners, become_rows_and_failures_denials) {
    struct results results = {0};
    struct tuned *tuned = tuned_new("t", "GPU", "");
    struct winners_counts counts;
    struct text text = {0};
    measured(&results, 64, 0.001, "ok");
    measured(&results, 32, 0.1, "hang");
    measured(&results, 256, 0.1, "refused");
    measured(&results, 512, 0.1, "compile");
    cr_assert(winners_fill(tuned, &results, 0, set, &counts));
    cr_expect_eq(counts.rows, 1);
    cr_expect_eq(counts.denied, 1);
    cr_expect_eq(counts.without, 0);
    cr_expect_float_eq(tuned->row[0].microseconds, 1000, 1e-3);
    cr_assert(winners_fill(tuned, &results, 0, set, &counts)); /* once more changes nothing */
    cr_expect_eq(tuned->rows, 1);
    cr_expect_eq(tuned->denials, 1);
    tuned_write(tuned, &text);
    struct diag diag = {0};
    struct tuned *again = tuned_read("t", text_string(&text), text.size, &diag);
    cr_assert(again, "%s", text_string(&diag.text));
    cr_expect_eq(again->row[0].schedule.threads, 64);
    cr_expect_eq(again->denial[0].knobs.threads, 32);
    text_free(&text);
    tuned_free(again);
    tuned_free(tuned);
    results_free(&results);
}

Test(winners, are_those_of_one_gpu) {
    struct results results = {0};
    struct winners_counts counts;
    measured_on(&results, "GPU", 64, 0.2, "ok");
    measured_on(&results, "another GPU", 256, 0.1, "ok");
    measured_on(&results, "another GPU", 32, 0.1, "hang");
    cr_assert_eq(results.settings, 2);
    for (int setting = 0; setting < 2; setting++) {
        struct tuned *tuned = tuned_new("t", "GPU", "");
        cr_assert(winners_fill(tuned, &results, setting, set, &counts));
        cr_expect_eq(counts.rows, 1);
        cr_expect_eq(counts.denied, setting);
        cr_expect_eq(tuned->row[0].schedule.threads, setting ? 256 : 64);
        tuned_free(tuned);
    }
    results_free(&results);
}

Test(winners, are_not_sought_in_texts_of_other_versions) {
    static const char *const texts[] = {"", "family=attention", "family=attention_forward colour=red",
                                        "family=attention_forward head_dim=999", "head_dim=16"};
    struct knobs knobs;
    struct shape sizes;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        cr_expect_not(winners_read_problem(texts[i], &knobs), "%s", texts[i]);
    cr_expect_not(winners_read_schedule("sm_1", "threads=64", &knobs));
    cr_expect_not(winners_read_schedule("any", "threads=many", &knobs));
    cr_expect_not(winners_read_shape("batch=1", family_attention_forward, &sizes));
    cr_expect(winners_read_problem(problem, &knobs));
    cr_expect(winners_read_schedule("any", "algorithm=flash threads=64", &knobs));
    cr_expect_eq(knobs.threads, 64);
    cr_expect_eq(knobs.block_m, AUTO);
    cr_expect(winners_read_shape(shape, family_attention_forward, &sizes));
}

Test(winners, a_lock_file_names_every_knob) {
    struct results results = {0};
    struct winners_counts counts;
    struct text text = {0};
    struct diag diag = {0};
    measured(&results, 64, 1e-3, "ok");
    struct tuned *tuned = tuned_new("lock.yaml", "GPU", "");
    cr_assert(tuned && winners_fill(tuned, &results, 0, set, &counts) && winners_lock(tuned, set));
    tuned_write(tuned, &text);
    static const char *const lines[] = {"lock: \"" GEN_VERSION "\"\n", "algorithm: flash, ", "threads: 64",
                                        "target: any"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        cr_expect(strstr(text_string(&text), lines[i]), "no %s in %s", lines[i], text_string(&text));
    struct tuned *again = tuned_read("lock.yaml", text_string(&text), text.size, &diag);
    cr_assert(again, "%s", text_string(&diag.text));
    cr_expect_str_eq(again->lock, GEN_VERSION);
    text_free(&text);
    tuned_free(again);
    tuned_free(tuned);
    results_free(&results);
}
