#include "candidates.h"
#include "clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- why not ------------------------------------------------------------------------------------------------------ */

/* Finds where the constraint stands: "(file:line)" at the end of a template's reason, "file:line: " at the start of a
   spec's reason. Any other reason is used as a whole. */
static void find_rule(const char *reason, char *rule, size_t size) {
    const char *open = strrchr(reason, '('), *close = open ? strchr(open, ')') : NULL;
    const char *colon = strchr(reason, ':'), *blank = strstr(reason, ": ");
    if (close && !close[1] && memchr(open, ':', (size_t)(close - open)))
        snprintf(rule, size, "%.*s", (int)(close - open - 1), open + 1);
    else if (colon && blank && blank > colon && strspn(colon + 1, "0123456789") == (size_t)(blank - colon - 1))
        snprintf(rule, size, "%.*s", (int)(blank - reason), reason);
    else
        snprintf(rule, size, "%s", reason);
}

static bool note_pruned(struct candidates *all, const struct variant *variant) {
    char rule[VARIANT_REASON];
    find_rule(variant->reason, rule, sizeof rule);
    for (int i = 0; i < all->prunings; i++)
        if (strcmp(all->pruning[i].rule, rule) == 0) {
            all->pruning[i].count++;
            return true;
        }
    if (all->prunings == all->pruning_room) {
        int room = all->pruning_room ? 2 * all->pruning_room : 16;
        struct pruning *grown = realloc(all->pruning, (size_t)room * sizeof *grown);
        if (!grown)
            return false;
        all->pruning = grown;
        all->pruning_room = room;
    }
    struct pruning *pruning = &all->pruning[all->prunings++];
    pruning->count = 1;
    memcpy(pruning->rule, rule, sizeof rule);
    memcpy(pruning->example, variant->reason, sizeof pruning->example);
    return true;
}

static int more_frequent(const void *a, const void *b) {
    const struct pruning *x = a, *y = b;
    return (x->count < y->count) - (x->count > y->count);
}

/* --- what there is ------------------------------------------------------------------------------------------------ */

/* Returns the number of the problem, or -1 if memory runs out. */
static int find_problem(struct candidates *all, const struct knobs *knobs) {
    int last = all->count ? all->candidate[all->count - 1].problem : -1; /* neighbours often share a problem */
    if (last >= 0 && knobs_same_problem(&all->problem[last], knobs))
        return last;
    for (int i = 0; i < all->problems; i++)
        if (knobs_same_problem(&all->problem[i], knobs))
            return i;
    struct knobs *grown = realloc(all->problem, ((size_t)all->problems + 1) * sizeof *grown);
    if (!grown)
        return -1;
    all->problem = grown;
    size_t masks = ((size_t)all->problems + 1) * (size_t)all->shapes;
    struct model_mask *mask = realloc(all->mask, masks * sizeof *mask);
    if (!mask)
        return -1;
    all->mask = mask;
    for (int i = 0; i < all->shapes; i++)
        model_mask_make(&all->mask[all->problems * all->shapes + i], knobs, &all->shape[i]);
    all->problem[all->problems] = *knobs;
    return all->problems++;
}

static bool grow(struct candidates *all) {
    if (all->count < all->room)
        return true;
    int room = all->room ? 2 * all->room : 1024;
    struct candidate *candidate = realloc(all->candidate, (size_t)room * sizeof *candidate);
    if (candidate)
        all->candidate = candidate;
    float *seconds = candidate ? realloc(all->seconds, (size_t)room * (size_t)all->shapes * sizeof *seconds) : NULL;
    if (!seconds)
        return false;
    all->seconds = seconds;
    all->room = room;
    return true;
}

/* Counts the schedule knobs that differ from what the template would choose by itself. */
static int count_unusual(const struct template_set *set, const struct knobs *knobs) {
    struct knobs given = *knobs;
    struct variant usual;
    int count = 0;
    for (int id = 0; id < KNOB_COUNT; id++)
        if (knob_table[id].group == KNOB_GROUP_SCHEDULE && id != KNOB_algorithm && id != KNOB_loop_order)
            knob_set(&given, (enum knob_id)id, knob_table[id].fallback);
    variant_complete(set, &given, false, &usual);
    for (int id = 0; id < KNOB_COUNT; id++)
        count += knob_get(&usual.knobs, (enum knob_id)id) != knob_get(knobs, (enum knob_id)id);
    return count;
}

static bool add(struct candidates *all, const struct template_set *set, const struct variant *variant,
                const struct model_gpu *gpu) {
    if (all->count > INT32_MAX / 2 / (all->shapes + 1) || !grow(all))
        return false;
    int problem = find_problem(all, &variant->knobs);
    if (problem < 0)
        return false;
    int first = all->count * all->shapes;
    struct candidate *candidate = &all->candidate[all->count++];
    *candidate = (struct candidate){.problem = problem,
                                    .shared_bytes = variant->shared_bytes,
                                    .unusual = count_unusual(set, &variant->knobs),
                                    .first_time = first};
    for (int id = 0; id < KNOB_COUNT; id++)
        candidate->value[id] = knob_get(&variant->knobs, (enum knob_id)id);
    for (int i = 0; i < all->shapes; i++) {
        struct model_terms terms;
        const struct model_usage usage = {.mask = &all->mask[problem * all->shapes + i]};
        bool known = model_predict(gpu, variant, &all->shape[i], &usage, &terms);
        all->seconds[first + i] = known ? (float)terms.seconds : 0;
    }
    return true;
}

/* --- sorting ------------------------------------------------------------------------------------------------------ */

static bool score(struct candidates *all) {
    size_t cells = (size_t)all->problems * (size_t)all->shapes;
    float *best = calloc(cells + 1, sizeof *best);
    if (!best)
        return false;
    for (int i = 0; i < all->count; i++)
        for (int k = 0; k < all->shapes; k++) {
            float *least = &best[all->candidate[i].problem * all->shapes + k];
            float seconds = all->seconds[all->candidate[i].first_time + k];
            if (seconds > 0 && (*least == 0 || seconds < *least))
                *least = seconds;
        }
    for (int i = 0; i < all->count; i++) {
        struct candidate *candidate = &all->candidate[i];
        double sum = 0;
        for (int k = 0; k < all->shapes; k++) {
            float seconds = all->seconds[candidate->first_time + k];
            sum += seconds > 0 ? log(seconds / best[candidate->problem * all->shapes + k]) : INFINITY;
        }
        candidate->score = candidate->order = exp(sum / all->shapes);
    }
    free(best);
    return true;
}

static int better(const void *a, const void *b) {
    const struct candidate *x = a, *y = b;
    if (x->problem != y->problem)
        return x->problem - y->problem;
    if (x->order != y->order)
        return x->order < y->order ? -1 : 1;
    if (x->unusual != y->unusual)
        return x->unusual - y->unusual;
    if (x->shared_bytes != y->shared_bytes)
        return x->shared_bytes - y->shared_bytes;
    return x->first_time - y->first_time;
}

/* Schedules with the same tiles are so similar that they would fill the first places together. Moves the second and
   later ones back a little each, so that different tiles are tried first. */
static void set_twins_back(struct candidates *all) {
    enum { PERMILLE = 10, MOST = 10, TILES = 512 };
    struct {
        int block_m, block_n, count;
    } tile[TILES];
    int tiles = 0;
    for (int i = 0; i < all->count; i++) {
        struct candidate *candidate = &all->candidate[i];
        int block_m = candidate->value[KNOB_block_m], block_n = candidate->value[KNOB_block_n], at = 0;
        if (i > 0 && candidate->problem != candidate[-1].problem)
            tiles = 0;
        while (at < tiles && (tile[at].block_m != block_m || tile[at].block_n != block_n))
            at++;
        if (at == tiles && tiles == TILES)
            continue;
        if (at == tiles)
            tile[tiles++].count = 0;
        tile[at].block_m = block_m;
        tile[at].block_n = block_n;
        candidate->order *= 1 + tile[at].count * PERMILLE / 1000.0;
        tile[at].count += tile[at].count < MOST;
    }
}

bool candidates_find(struct candidates *all, const struct template_set *set, const struct spec *spec,
                     const struct model_gpu *gpu, const struct shape *shape, int shapes,
                     const struct candidates_filter *filter) {
    static const struct candidates_filter none;
    struct space space;
    struct variant variant;
    double start = clock_seconds();
    filter = filter ? filter : &none;
    *all = (struct candidates){.shape = shape, .shapes = shapes};
    space_open(&space, spec, set, model_gpu_targets(gpu));
    while (!all->failed && space_next(&space, &variant)) {
        all->tried++;
        if (!variant.feasible)
            all->failed = !note_pruned(all, &variant);
        else if (!filter->wanted || filter->wanted(filter->context, &variant))
            all->failed = !add(all, set, &variant, gpu);
        if (filter->interrupted && all->tried % 1024 == 0 && filter->interrupted())
            break;
    }
    all->failed |= space.failed;
    space_close(&space);
    double searched = clock_seconds();
    if (!all->failed)
        all->failed = !score(all);
    if (!all->failed && all->count > 0) {
        qsort(all->candidate, (size_t)all->count, sizeof *all->candidate, better);
        set_twins_back(all);
        qsort(all->candidate, (size_t)all->count, sizeof *all->candidate, better);
    }
    if (!all->failed && all->prunings > 0)
        qsort(all->pruning, (size_t)all->prunings, sizeof *all->pruning, more_frequent);
    all->search_seconds = searched - start;
    all->sort_seconds = clock_seconds() - searched;
    return !all->failed;
}

const struct candidate *candidates_of(const struct candidates *all, int problem, int *count) {
    int first = 0;
    while (first < all->count && all->candidate[first].problem < problem)
        first++;
    int last = first;
    while (last < all->count && all->candidate[last].problem == problem)
        last++;
    *count = last - first;
    return all->candidate + first;
}

struct knobs candidates_knobs(const struct candidates *all, const struct candidate *candidate) {
    struct knobs knobs = all->problem[candidate->problem];
    for (int id = 0; id < KNOB_COUNT; id++)
        knob_set(&knobs, (enum knob_id)id, candidate->value[id]);
    return knobs;
}

void candidates_free(struct candidates *all) {
    free(all->problem);
    free(all->mask);
    free(all->candidate);
    free(all->seconds);
    free(all->pruning);
    *all = (struct candidates){0};
}
