#include "field.h"
#include "tuned.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BEST_OF_FOUR = 3 }; /* of four candidates so many are the model's, the others drawn */

/* --- the space ---------------------------------------------------------------------------------------------------- */

static uint64_t hash(const char *text) {
    uint64_t value = 14695981039346656037u; /* FNV-1a, then mixed: similar names must not be neighbours */
    for (; *text; text++)
        value = (value ^ (unsigned char)*text) * 1099511628211u;
    value ^= value >> 31;
    value *= 0x9E3779B97F4A7C15u;
    return value ^ value >> 29;
}

static unsigned targets_of(const struct field *field, const char *arch) {
    struct model_gpu gpu = {0};
    if (field->known_gpu)
        return model_gpu_targets(&field->gpu);
    snprintf(gpu.arch, sizeof gpu.arch, "%s", arch);
    return strcmp(arch, "host") == 0 ? 1u << target_any : model_gpu_targets(&gpu);
}

static int find_problem(struct field *field, const struct knobs *knobs) {
    struct knobs problem = tuned_problem(knobs);
    for (int i = field->problems - 1; i >= 0; i--)
        if (memcmp(&field->problem[i], &problem, sizeof problem) == 0)
            return i;
    struct knobs *more = realloc(field->problem, ((size_t)field->problems + 1) * sizeof *more);
    if (!more)
        return -1;
    field->problem = more;
    more[field->problems] = problem;
    return field->problems++;
}

static bool add_variant(struct field *field, const struct variant *variant) {
    int problem = find_problem(field, &variant->knobs);
    if (problem >= 0 && field->variants == field->room) {
        int room = 2 * field->room + 256;
        struct field_variant *more = realloc(field->variant, (size_t)room * sizeof *more);
        if (!more)
            return false;
        field->variant = more;
        field->room = room;
    }
    if (problem >= 0)
        field->variant[field->variants++] =
            (struct field_variant){.variant = *variant, .problem = problem, .draw = hash(variant->name)};
    return problem >= 0;
}

/* Reasons differ in their values; what comes before them, the constraint, is what is counted. */
static void count_reason(struct field *field, const char *reason) {
    const char *values = strstr(reason, " does not hold");
    size_t size = values ? (size_t)(values - reason) : strcspn(reason, "0123456789");
    field->pruned++;
    for (int i = 0; i < FIELD_REASONS; i++) {
        if (field->reason[i].count == 0)
            snprintf(field->reason[i].text, sizeof field->reason[i].text, "%s", reason);
        if (strncmp(field->reason[i].text, reason, size) == 0) {
            field->reason[i].count++;
            return;
        }
    }
}

bool field_open(struct field *field, const struct spec *spec, const struct catalog *catalog,
                const struct record *setting) {
    struct space space;
    struct variant variant;
    bool good = true;
    *field = (struct field){.set = catalog->templates};
    field->known_gpu = model_gpu_find(setting->device, &field->gpu);
    space_open(&space, spec, field->set, targets_of(field, setting->arch));
    while (good && space_next(&space, &variant))
        if (variant.feasible && !catalog_wants(catalog, &variant))
            field->unwanted++;
        else if (variant.feasible)
            good = add_variant(field, &variant);
        else
            count_reason(field, variant.reason);
    good = good && !space.failed;
    space_close(&space);
    return good;
}

void field_close(struct field *field) {
    free(field->variant);
    free(field->problem);
    *field = (struct field){0};
}

void field_print_problem(const struct field *field, int number, struct text *text) {
    const struct knobs *problem = &field->problem[number];
    for (int i = 0; i < KNOB_COUNT; i++) {
        enum knob_id id = (enum knob_id)i;
        int value = knob_get(problem, id);
        if (value == AUTO || knob_table[id].group == KNOB_GROUP_SCHEDULE || id == KNOB_target)
            continue;
        text_print(text, "%s%s=", text->size ? " " : "", knob_table[id].name);
        if (knob_table[id].words)
            text_print(text, "%s", knob_word_name(id, value));
        else
            text_print(text, "%d", value);
    }
}

/* --- picking ------------------------------------------------------------------------------------------------------ */

static bool add(struct field *field, struct field_variant *entry, struct tuner *tuner) {
    if (!*entry->digest && !tuner_digest(field->set, &entry->variant, entry->digest))
        return true; /* it does not expand: no candidate */
    return tuner_add_candidate(tuner, &entry->variant, entry->digest);
}

static int by_time(const void *a, const void *b) {
    const struct field_variant *x = *(struct field_variant *const *)a, *y = *(struct field_variant *const *)b;
    return x->seconds != y->seconds ? (x->seconds > y->seconds) - (x->seconds < y->seconds)
                                    : (x->draw > y->draw) - (x->draw < y->draw);
}

static int by_draw(const void *a, const void *b) {
    const struct field_variant *x = *(struct field_variant *const *)a, *y = *(struct field_variant *const *)b;
    return (x->draw > y->draw) - (x->draw < y->draw);
}

/* What the template would choose itself, for the algorithm of `like`. */
static bool add_default(const struct field *field, const struct variant *like, struct tuner *tuner) {
    struct knobs knobs = like->knobs;
    struct variant variant;
    char digest[TUNER_DIGEST];
    for (int id = 0; id < KNOB_COUNT; id++)
        if (knob_table[id].group == KNOB_GROUP_SCHEDULE && id != KNOB_algorithm && id != KNOB_loop_order)
            knob_set(&knobs, (enum knob_id)id, AUTO);
    if (!variant_complete(field->set, &knobs, false, &variant) || !tuner_digest(field->set, &variant, digest))
        return true;
    return tuner_add_candidate(tuner, &variant, digest);
}

bool field_pick(struct field *field, int problem, const struct shape *shape, int count, struct tuner *tuner) {
    int found = 0;
    struct field_variant **sorted = malloc(((size_t)field->variants + 1) * sizeof *sorted);
    if (!sorted)
        return false;
    for (int i = 0; i < field->variants; i++) {
        struct field_variant *entry = &field->variant[i];
        struct model_terms terms;
        if (entry->problem != problem)
            continue;
        bool predicted =
            field->known_gpu && model_predict(&field->gpu, &entry->variant, shape, NULL, &terms) && terms.seconds > 0;
        entry->seconds = predicted ? terms.seconds : INFINITY;
        sorted[found++] = entry;
    }
    qsort(sorted, (size_t)found, sizeof *sorted, by_time);
    int best = count < found ? (count * BEST_OF_FOUR + 3) / 4 : found, at = 0;
    bool good = found == 0 || add_default(field, &sorted[0]->variant, tuner);
    for (; good && at < found && tuner->cell[tuner->cells - 1].candidates < best; at++)
        good = add(field, sorted[at], tuner);
    qsort(sorted + at, (size_t)(found - at), sizeof *sorted, by_draw);
    for (; good && at < found && tuner->cell[tuner->cells - 1].candidates < count; at++)
        good = add(field, sorted[at], tuner);
    free(sorted);
    return good;
}
