#include "field.h"
#include "tuned.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The model cannot distinguish kernels whose times are this close: their order is random. */
static const double STEP = 0.02;
static const double WRONG_BY = 3; /* possible error factor of the model: slower predictions than that are not drawn */

/* --- problems ----------------------------------------------------------------------------------------------------- */

/* Omits implied values, so that a future knob does not change the texts of today. */
static bool is_said(const struct knobs *problem, enum knob_id id) {
    int value = knob_get(problem, id);
    if (id == KNOB_family || id == KNOB_dtype || id == KNOB_head_dim)
        return true;
    if (knob_table[id].group != KNOB_GROUP_PROBLEM || value == AUTO || value == knob_table[id].fallback)
        return false;
    return !(id == KNOB_dtype_out && value == problem->dtype) && !(id == KNOB_dtype_kv && value == problem->dtype) &&
           !(id == KNOB_head_dim_v && value == problem->head_dim);
}

void field_print_problem(const struct knobs *knobs, struct text *text) {
    knob_flags said = 0;
    for (int id = 0; id < KNOB_COUNT; id++)
        said |= is_said(knobs, (enum knob_id)id) ? KNOB_FLAG(id) : 0;
    if (*knobs->formulas.params) /* parameters are printed with the mask */
        said |= KNOB_FLAG(KNOB_mask);
    knobs_print(knobs, said, text);
}

bool field_fits(const struct knobs *knobs, const struct shape *shape) {
    for (int i = 0; i < FIXED_SIZES; i++) {
        int fixed = knob_get(knobs, fixed_sizes[i].knob);
        if (fixed > 0 && fixed != shape_get(shape, fixed_sizes[i].shape))
            return false;
    }
    return true;
}

/* --- picking ------------------------------------------------------------------------------------------------------ */

struct draw { /* a candidate, and its keys in the orders */
    const struct candidate *candidate;
    float seconds;   /* predicted; infinite = not known */
    int step;        /* how many steps slower than the best it is predicted to be */
    uint64_t number; /* random number of the candidate */
};

static uint64_t draw_number(const struct candidate *candidate) {
    uint64_t value = 14695981039346656037u; /* FNV-1a, then mixed: neighbours must not be drawn together */
    for (int i = 0; i < KNOB_COUNT; i++)
        value = (value ^ (uint64_t)(int64_t)candidate->value[i]) * 1099511628211u;
    value ^= value >> 31;
    value *= 0x9E3779B97F4A7C15u;
    return value ^ value >> 29;
}

static int by_number(const void *a, const void *b) {
    const struct draw *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

static int by_time(const void *a, const void *b) {
    const struct draw *x = a, *y = b;
    return x->seconds != y->seconds ? (x->seconds > y->seconds) - (x->seconds < y->seconds) : by_number(a, b);
}

static int by_step(const void *a, const void *b) {
    const struct draw *x = a, *y = b;
    return x->step != y->step ? x->step - y->step : by_number(a, b);
}

/* Of every four candidates, one is the model's first choice, two are drawn from the model's best, and one from all. */
static const struct phase {
    int quarters; /* share of the candidates at the end of the phase, in quarters */
    int (*order)(const void *a, const void *b);
} phases[] = {{1, by_time}, {3, by_step}, {4, by_number}};

enum { PHASES = sizeof phases / sizeof *phases };

/* Returns the digest of a kernel that is a candidate elsewhere: expanding a source takes a millisecond. */
static const char *recall_digest(const struct tuner *tuner, const struct variant *variant) {
    for (int i = 0; i < tuner->kernels; i++)
        if (variant_same(&tuner->kernel[i].variant, variant))
            return tuner->kernel[i].source;
    return NULL;
}

bool field_add(const struct template_set *set, const struct knobs *knobs, struct tuner *tuner) {
    struct variant variant;
    char made[TUNER_DIGEST];
    if (!variant_complete(set, knobs, false, &variant))
        return true;
    const char *digest = recall_digest(tuner, &variant);
    if (!digest && tuner_digest(set, &variant, made))
        digest = made;
    return !digest || tuner_add_candidate(tuner, &variant, digest);
}

bool field_default(const struct template_set *set, const struct knobs *like, struct variant *variant) {
    struct knobs knobs = *like;
    for (int i = 0; i < KNOB_COUNT; i++)
        if (knob_table[i].group == KNOB_GROUP_SCHEDULE && i != KNOB_algorithm && i != KNOB_loop_order)
            knob_set(&knobs, (enum knob_id)i, knob_table[i].fallback);
    return variant_complete(set, &knobs, false, variant);
}

bool field_add_default(const struct template_set *set, const struct knobs *like, struct tuner *tuner) {
    struct variant variant;
    if (!field_default(set, like, &variant))
        return true;
    struct tuner_cell *cell = &tuner->cell[tuner->cells - 1];
    int before = cell->candidates;
    bool good = field_add(set, &variant.knobs, tuner);
    cell->usual = cell->candidates > before ? before : -1;
    return good;
}

/* Returns candidates sorted by predicted time, without those that are surely too slow. */
static struct draw *make_draw(const struct candidates *all, int problem, int shape, int *count) {
    int found;
    const struct candidate *first = candidates_of(all, problem, &found);
    struct draw *draw = malloc(((size_t)found + 1) * sizeof *draw);
    for (int i = 0; draw && i < found; i++) {
        float seconds = candidates_seconds(all, &first[i], shape);
        draw[i] = (struct draw){&first[i], seconds > 0 ? seconds : INFINITY, 0, draw_number(&first[i])};
    }
    *count = draw ? found : 0;
    if (*count == 0)
        return draw;
    qsort(draw, (size_t)found, sizeof *draw, by_time);
    double best = (double)draw[0].seconds;
    while (!isinf(best) && (double)draw[*count - 1].seconds > WRONG_BY * best)
        --*count;
    for (int i = 0; !isinf(best) && i < *count; i++)
        draw[i].step = (int)(log((double)draw[i].seconds / best) / STEP);
    return draw;
}

bool field_pick(const struct template_set *set, const struct candidates *all, int problem, int shape, int count,
                bool own, struct tuner *tuner) {
    int found, at = 0;
    struct draw *draw = make_draw(all, problem, shape, &found);
    const int *entered = &tuner->cell[tuner->cells - 1].candidates;
    if (!draw)
        return false;
    struct knobs knobs = found > 0 ? candidates_knobs(all, draw[0].candidate) : knobs_default();
    bool good = found == 0 || !own || field_add_default(set, &knobs, tuner);
    for (const struct phase *phase = phases; phase < phases + PHASES; phase++) {
        qsort(draw + at, (size_t)(found - at), sizeof *draw, phase->order);
        for (; good && at < found && *entered < (count * phase->quarters + 3) / 4; at++) {
            knobs = candidates_knobs(all, draw[at].candidate);
            good = field_add(set, &knobs, tuner);
        }
    }
    free(draw);
    return good;
}
