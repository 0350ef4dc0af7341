#include "field.h"
#include "tuned.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BEST_OF_FOUR = 3 }; /* of four candidates so many are the model's, the others drawn */

static const double WRONG_BY = 3; /* the model may be: what it expects to take longer than so many times is not drawn */

/* --- problems ----------------------------------------------------------------------------------------------------- */

/* What goes without saying is not said: then a knob that is new tomorrow leaves the texts of today as they are. */
static bool is_said(const struct knobs *problem, enum knob_id id) {
    int value = knob_get(problem, id);
    if (id == KNOB_family || id == KNOB_dtype || id == KNOB_head_dim)
        return true;
    if (knob_table[id].group != KNOB_GROUP_PROBLEM || value == AUTO || value == knob_table[id].fallback)
        return false;
    return !(id == KNOB_dtype_out && value == problem->dtype) && !(id == KNOB_head_dim_v && value == problem->head_dim);
}

void field_print_problem(const struct knobs *knobs, struct text *text) {
    unsigned said = 0;
    for (int id = 0; id < KNOB_COUNT; id++)
        said |= is_said(knobs, (enum knob_id)id) ? 1u << id : 0;
    if (*knobs->formulas.params) /* these are printed with the mask */
        said |= 1u << KNOB_mask;
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

struct draw { /* a candidate, and its place in the two orders */
    const struct candidate *candidate;
    float seconds;   /* predicted; infinite = not known */
    uint64_t number; /* drawn for it */
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

bool field_add(const struct template_set *set, const struct knobs *knobs, struct tuner *tuner) {
    struct variant variant;
    char digest[TUNER_DIGEST];
    return !variant_complete(set, knobs, false, &variant) || !tuner_digest(set, &variant, digest) ||
           tuner_add_candidate(tuner, &variant, digest);
}

bool field_add_default(const struct template_set *set, const struct knobs *like, struct tuner *tuner) {
    struct knobs knobs = *like;
    for (int i = 0; i < KNOB_COUNT; i++)
        if (knob_table[i].group == KNOB_GROUP_SCHEDULE && i != KNOB_algorithm && i != KNOB_loop_order)
            knob_set(&knobs, (enum knob_id)i, AUTO);
    return field_add(set, &knobs, tuner);
}

bool field_pick(const struct template_set *set, const struct candidates *all, int problem, int shape, int count,
                bool own, struct tuner *tuner) {
    int found;
    const struct candidate *first = candidates_of(all, problem, &found);
    const int *entered = &tuner->cell[tuner->cells - 1].candidates;
    struct draw *draw = malloc(((size_t)found + 1) * sizeof *draw);
    if (!draw)
        return false;
    for (int i = 0; i < found; i++) {
        float seconds = candidates_seconds(all, &first[i], shape);
        draw[i] = (struct draw){&first[i], seconds > 0 ? seconds : INFINITY, draw_number(&first[i])};
    }
    qsort(draw, (size_t)found, sizeof *draw, by_time);
    if (found > 0 && !isinf(draw[0].seconds))
        while ((double)draw[found - 1].seconds > WRONG_BY * (double)draw[0].seconds)
            found--;
    struct knobs knobs = found > 0 ? candidates_knobs(all, draw[0].candidate) : knobs_default();
    int best = (count * BEST_OF_FOUR + 3) / 4;
    bool good = found == 0 || !own || field_add_default(set, &knobs, tuner);
    for (int i = 0; good && i < found && *entered < count; i++) {
        if (*entered == best) { /* the model had its say: the rest is drawn */
            qsort(draw + i, (size_t)(found - i), sizeof *draw, by_number);
            best = -1;
        }
        knobs = candidates_knobs(all, draw[i].candidate);
        good = field_add(set, &knobs, tuner);
    }
    free(draw);
    return good;
}
