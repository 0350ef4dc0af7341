#include "winners.h"
#include "field.h"
#include "tuner.h"
#include "shape_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double EVEN = 1.02; /* within this factor the template's own schedule wins: it is made for every shape */

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
    if (knobs->dtype_kv == AUTO)
        knobs->dtype_kv = knobs->dtype;
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

bool winners_read_variant(const struct template_set *set, const struct record *record, struct variant *variant) {
    struct knobs knobs, schedule;
    if (!winners_read_problem(record->problem, &knobs) ||
        !winners_read_schedule(record->target, record->schedule, &schedule))
        return false;
    for (int id = 0; id < KNOB_COUNT; id++)
        if (knob_get(&schedule, (enum knob_id)id) != AUTO) /* else as before the knob existed */
            knob_set(&knobs, (enum knob_id)id, knob_get(&schedule, (enum knob_id)id));
    return variant_complete(set, &knobs, false, variant);
}

bool winners_read_shape(const char *text, int family, struct shape *shape) {
    struct text error = {0};
    bool good = shape_parse(text, family, shape, &error);
    text_free(&error);
    return good;
}

/* Reads problem and schedule of a kernel into one set of knobs. */
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

/* Returns the template's own schedule for the winner's algorithm, if it was measured; -1 otherwise. */
static int find_own(const struct result_cell *cell, int winner, const struct template_set *set) {
    struct knobs knobs;
    struct variant variant;
    char digest[TUNER_DIGEST];
    if (!set || !read_kernel(cell, &cell->kernel[winner], &knobs))
        return -1;
    if (!field_default(set, &knobs, &variant) || !tuner_digest(set, &variant, digest))
        return -1;
    int found = results_find_kernel(cell, variant.name, digest);
    return found >= 0 && !cell->kernel[found].status && cell->kernel[found].passes > 0 ? found : -1;
}

/* Finds the two best kernels whose source is still the present one. */
static int find_best(const struct result_cell *cell, const struct template_set *set, struct contest *contest,
                     int best[2], int *stale) {
    int *order = malloc(((size_t)cell->kernels + 1) * sizeof *order), found = 0;
    int ranked = order ? contest_rank(contest, order) : 0;
    best[0] = best[1] = -1;
    for (int i = 0; i < ranked && found < 2; i++)
        if (is_current(cell, &cell->kernel[order[i]], set))
            best[found++] = order[i];
        else
            ++*stale;
    free(order);
    return found;
}

bool winners_of(const struct result_cell *cell, const struct template_set *set, struct winner *winner) {
    struct contest contest;
    int best[2];
    *winner = (struct winner){.kernel = -1, .runner_up = -1};
    if (!results_contest(cell, &contest))
        return false;
    int found = find_best(cell, set, &contest, best, &winner->stale);
    int own = found > 0 ? find_own(cell, best[0], set) : -1;
    if (own >= 0 && own != best[0] &&
        contest_time(&contest.entrant[own]) <= EVEN * contest_time(&contest.entrant[best[0]])) {
        best[1] = best[0];
        best[0] = own;
        found = 2;
    }
    winner->kernel = best[0];
    winner->runner_up = best[1];
    winner->seconds = found > 0 ? contest_time(&contest.entrant[best[0]]) : 0;
    winner->margin = found == 2 ? fmax(1, contest_time(&contest.entrant[best[1]]) / winner->seconds) : 0;
    contest_close(&contest);
    return found > 0;
}

static bool put_winner(struct tuned *tuned, const struct result_cell *cell, const struct template_set *set,
                       struct winners_counts *counts) {
    struct tuned_row row = {0};
    struct knobs problem;
    struct shape shape;
    struct winner winner = {0};
    bool known =
        winners_read_problem(cell->problem, &problem) && winners_read_shape(cell->shape, problem.family, &shape) &&
        winners_of(cell, set, &winner) &&
        winners_read_schedule(cell->kernel[winner.kernel].target, cell->kernel[winner.kernel].schedule, &row.schedule);
    counts->stale += winner.stale;
    counts->without += !known;
    if (!known)
        return true;
    row.problem = tuned_problem(&problem);
    row.shape = tuned_shape(&shape);
    row.microseconds = 1e6 * winner.seconds;
    row.margin = winner.margin;
    counts->rows++;
    return tuned_put(tuned, &row);
}

bool winners_lock(struct tuned *tuned, const struct template_set *set) {
    for (int i = 0; i < tuned->rows; i++) {
        struct tuned_row *row = &tuned->row[i];
        const struct knobs defaults = knobs_default();
        struct knobs knobs = row->problem;
        struct variant variant;
        for (int id = 0; id < KNOB_COUNT; id++) {
            bool said = knob_get(&row->schedule, (enum knob_id)id) != AUTO;
            if (said || knob_table[id].group == KNOB_GROUP_SCHEDULE)
                knob_set(&knobs, (enum knob_id)id, knob_get(said ? &row->schedule : &defaults, (enum knob_id)id));
        }
        if (!variant_complete(set, &knobs, false, &variant))
            continue; /* no choice can follow this row; a lock file reports why */
        for (int id = 0; id < KNOB_COUNT; id++)
            if (knob_in(variant.used, id) && (knob_table[id].group == KNOB_GROUP_SCHEDULE || id == KNOB_target))
                knob_set(&row->schedule, (enum knob_id)id, knob_get(&variant.knobs, (enum knob_id)id));
    }
    return tuned_lock(tuned);
}

/* True for kernels for the deny list: not those refused for a shape, nor those that do not compile, which att_find
   detects itself. */
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
