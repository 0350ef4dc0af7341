/* How well the performance model predicts the measurements behind the tuned table of the H200, as docs/model.md
   states. */
#include "agreement.h"
#include "model.h"
#include "tuner.h"
#include "winners.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { POINTS = 4000 };

static struct results read_results(void) {
    struct results results = {0};
    struct text error = {0};
    char path[] = "/tmp/attile-agreement-XXXXXX", command[256];
    int file = mkstemp(path);
    cr_assert(file >= 0);
    close(file);
    snprintf(command, sizeof command, "gzip -dc " SOURCE_DIR "/bench/results/tune_h200.jsonl.gz >%s", path);
    cr_assert_eq(system(command), 0);
    cr_assert(journal_read_file(path, results_add, &results, NULL, &error), "%s", text_string(&error));
    unlink(path);
    return results;
}

/* Adds everything that was measured of one problem and shape. Returns the number of points. */
static int add_cell(const struct template_set *set, const struct model_gpu *gpu, const struct results *results,
                    int number, struct agreement_point *point) {
    const struct result_cell *cell = &results->cell[number];
    struct contest contest;
    struct shape shape;
    int points = 0;
    cr_assert(results_contest(cell, &contest));
    for (int i = 0; i < cell->kernels; i++) {
        struct knobs knobs, schedule;
        struct variant variant;
        struct model_terms terms;
        if (cell->kernel[i].status || cell->kernel[i].passes == 0)
            continue;
        cr_assert(winners_read_problem(cell->problem, &knobs) &&
                  winners_read_shape(cell->shape, knobs.family, &shape) &&
                  winners_read_schedule(cell->kernel[i].target, cell->kernel[i].schedule, &schedule));
        for (int id = 0; id < KNOB_COUNT; id++)
            if (knob_get(&schedule, (enum knob_id)id) != AUTO)
                knob_set(&knobs, (enum knob_id)id, knob_get(&schedule, (enum knob_id)id));
        if (!variant_complete(set, &knobs, false, &variant)) /* the template has become stricter since */
            continue;
        cr_assert(model_predict(gpu, &variant, &shape, NULL, &terms));
        point[points++] = (struct agreement_point){number, terms.seconds, contest_time(&contest.entrant[i])};
    }
    contest_close(&contest);
    return points;
}

Test(agreement, the_best_is_among_the_first_choices) {
    static struct agreement_point point[POINTS];
    struct diag diag = {0};
    struct template_set *set = template_set_open(NULL, NULL, &diag);
    struct model_gpu gpu;
    struct agreement a;
    struct results results = read_results();
    int points = 0, most = 0;
    cr_assert(set && model_gpu_find("NVIDIA H200", &gpu));
    for (int i = 0; i < results.cells; i++)
        most += results.cell[i].kernels;
    cr_assert_leq(most, POINTS);
    for (int i = 0; i < results.cells; i++)
        points += add_cell(set, &gpu, &results, i, point + points);
    agreement_find(point, points, &a, NULL, NULL);
    cr_log_info("%d kernels, first choice %.3f of the best, best among the first 8 in %d of %d, time within %.1f %%",
                a.points, a.loss, a.first_few, a.cells, 100 * a.error);
    cr_expect_geq(a.cells, 128);
    cr_expect_geq(a.points, 1500);
    cr_expect_leq(a.loss, 1.08, "%g", a.loss);
    cr_expect_geq(a.first_few, 0.9 * a.cells, "%d of %d", a.first_few, a.cells);
    cr_expect_leq(a.error, 0.07, "%g", a.error);
    results_free(&results);
    template_set_close(set);
}
