#include "winners.h"
#include "inputs.h"
#include "tuner.h"

#include <stdlib.h>
#include <string.h>

/* --- texts of records --------------------------------------------------------------------------------------------- */

static bool read_knobs(const char *text, unsigned groups, struct knobs *knobs) {
    struct input input = {"<record>", text, strlen(text)};
    struct diag diag = {0};
    bool good = knobs_parse(&input, groups, knobs, &diag);
    diag_free(&diag);
    return good;
}

bool winners_read_problem(const char *problem, struct knobs *knobs) {
    *knobs = knobs_default();
    if (!read_knobs(problem, 1u << KNOB_GROUP_TOP | 1u << KNOB_GROUP_PROBLEM, knobs) || knobs->family == AUTO)
        return false;
    if (knobs->dtype_out == AUTO)
        knobs->dtype_out = knobs->dtype;
    if (knobs->head_dim_v == AUTO)
        knobs->head_dim_v = knobs->head_dim;
    return true;
}

bool winners_read_schedule(const char *target, const char *schedule, struct knobs *knobs) {
    struct text text = {0};
    *knobs = knobs_default();
    for (int id = 0; id < KNOB_COUNT; id++)
        knob_set(knobs, (enum knob_id)id, AUTO);
    text_print(&text, "target=%s %s", target, schedule);
    bool good = read_knobs(text_string(&text), 1u << KNOB_GROUP_TOP | 1u << KNOB_GROUP_SCHEDULE, knobs);
    text_free(&text);
    return good;
}

bool winners_read_shape(const char *text, int family, struct shape *shape) {
    struct text error = {0};
    bool good = inputs_parse_shape(text, family, shape, &error);
    text_free(&error);
    return good;
}

/* Problem and schedule of a kernel in one. */
static bool read_kernel(const struct result_cell *cell, const struct result_kernel *kernel, struct knobs *knobs) {
    struct knobs problem, schedule;
    if (!winners_read_problem(cell->problem, &problem) ||
        !winners_read_schedule(kernel->target, kernel->schedule, &schedule))
        return false;
    *knobs = problem;
    for (int i = 0; i < KNOB_COUNT; i++)
        if (knob_table[i].group == KNOB_GROUP_SCHEDULE || i == KNOB_target)
            knob_set(knobs, (enum knob_id)i, knob_get(&schedule, (enum knob_id)i));
    return true;
}

static bool is_current(const struct result_cell *cell, const struct result_kernel *kernel,
                       const struct template_set *set) {
    struct knobs knobs;
    struct variant variant;
    char digest[TUNER_DIGEST];
    return !set || (read_kernel(cell, kernel, &knobs) && variant_complete(set, &knobs, false, &variant) &&
                    tuner_digest(set, &variant, digest) && strcmp(digest, kernel->source) == 0);
}

/* --- winners ------------------------------------------------------------------------------------------------------ */

bool winners_of(const struct result_cell *cell, const struct template_set *set, int *winner, int *runner_up,
                double *margin, int *stale) {
    struct contest contest;
    int *order = malloc(((size_t)cell->kernels + 1) * sizeof *order);
    int best[2] = {-1, -1}, found = 0;
    if (order && results_contest(cell, &contest)) {
        int ranked = contest_rank(&contest, order);
        for (int i = 0; i < ranked && found < 2; i++)
            if (is_current(cell, &cell->kernel[order[i]], set))
                best[found++] = order[i];
            else
                ++*stale;
        *margin = found == 2 ? contest_time(&contest.entrant[best[1]]) / contest_time(&contest.entrant[best[0]]) : 0;
        contest_close(&contest);
    }
    free(order);
    *winner = best[0];
    *runner_up = best[1];
    return found > 0;
}

static bool put_winner(struct tuned *tuned, const struct result_cell *cell, const struct template_set *set,
                       struct winners_counts *counts) {
    struct tuned_row row = {0};
    struct knobs problem;
    struct contest contest;
    struct shape shape;
    int winner, second;
    if (!winners_read_problem(cell->problem, &problem) || !winners_read_shape(cell->shape, problem.family, &shape) ||
        !winners_of(cell, set, &winner, &second, &row.margin, &counts->stale) ||
        !winners_read_schedule(cell->kernel[winner].target, cell->kernel[winner].schedule, &row.schedule)) {
        counts->without++;
        return true;
    }
    if (!results_contest(cell, &contest))
        return false;
    row.problem = tuned_problem(&problem);
    row.shape = tuned_shape(&shape);
    row.microseconds = 1e6 * contest_time(&contest.entrant[winner]);
    contest_close(&contest);
    counts->rows++;
    return tuned_put(tuned, &row);
}

/* Out of service: not what a shape was refused for, nor what does not compile, which att_find finds out itself. */
static bool is_faulty(const struct result_kernel *kernel) {
    static const char *const words[] = {"wrong", "fault", "hang", "crash"};
    for (size_t i = 0; kernel->status && i < sizeof words / sizeof *words; i++)
        if (strcmp(kernel->status, words[i]) == 0)
            return true;
    return false;
}

bool winners_fill(struct tuned *tuned, const struct results *results, int setting, const struct template_set *set,
                  struct winners_counts *counts) {
    *counts = (struct winners_counts){0};
    for (int i = 0; i < results->cells; i++) {
        const struct result_cell *cell = &results->cell[i];
        if (cell->setting != setting)
            continue;
        if (!put_winner(tuned, cell, set, counts))
            return false;
        for (int k = 0; k < cell->kernels; k++) {
            const struct result_kernel *kernel = &cell->kernel[k];
            struct knobs knobs;
            if (!is_faulty(kernel) || !read_kernel(cell, kernel, &knobs) || !is_current(cell, kernel, set))
                continue;
            struct text why = {0};
            text_print(&why, "%s: %.200s", kernel->status, kernel->error);
            int before = tuned->denials;
            bool good =
                !why.failed && tuned_deny(tuned, &knobs, results->setting[setting].generator, text_string(&why));
            counts->denied += tuned->denials - before;
            text_free(&why);
            if (!good)
                return false;
        }
    }
    return true;
}
