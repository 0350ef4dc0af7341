#include "knobs.h"
#include "text.h"

#include <string.h>

_Static_assert(offsetof(struct knobs, formulas) == KNOB_COUNT * sizeof(int),
               "knob_get and knob_set see struct knobs as an array");

#define WORD(knob, word) #word,
#define KNOB_WORD(name, group, fallback, prefix, words, about)                                                         \
    static const char *const words_of_##name[] = {words(WORD) NULL};
#include "knobs.def"
#undef WORD

const struct knob_info knob_table[KNOB_COUNT] = {
#define KNOB_WORD(name, group, fallback, prefix, words, about)                                                         \
    {#name, KNOB_KIND_WORD, KNOB_GROUP_##group, name##_##fallback, prefix, words_of_##name, 0, 0, false, about},
#define KNOB_OPTION(name, group, fallback, prefix, words, about)                                                       \
    {#name, KNOB_KIND_WORD, KNOB_GROUP_##group, name##_##fallback, prefix, words_of_##name, 0, 0, true, about},
#define KNOB_FORMULA(name, group, fallback, prefix, words, about)                                                      \
    {#name, KNOB_KIND_FORMULA, KNOB_GROUP_##group, name##_##fallback, prefix, words_of_##name, 0, 0, false, about},
#define KNOB_LIST(name, group, fallback, prefix, words, about)                                                         \
    {#name, KNOB_KIND_FORMULA, KNOB_GROUP_##group, name##_##fallback, prefix, words_of_##name, 0, 0, true, about},
#define KNOB_INT(name, group, fallback, prefix, least, most, about)                                                    \
    {#name, KNOB_KIND_INT, KNOB_GROUP_##group, fallback, prefix, NULL, least, most, fallback == 0, about},
#include "knobs.def"
};

static const struct target_info targets[] = {
#define TARGET(name, shared_bytes, threads, arch, first, last, gpus)                                                   \
    [target_##name] = {#name, shared_bytes, threads, arch, first, last, gpus},
#include "targets.def"
};

const struct target_info *target_info(int target) { return &targets[target == AUTO ? target_any : target]; }

int knob_find(const char *name, size_t size) {
    for (int id = 0; id < KNOB_COUNT; id++)
        if (text_equals(name, size, knob_table[id].name))
            return id;
    return -1;
}

int knob_word(enum knob_id id, const char *s, size_t size) {
    for (int i = 0; knob_table[id].words && knob_table[id].words[i]; i++)
        if (text_equals(s, size, knob_table[id].words[i]))
            return i;
    return -1;
}

const char *knob_word_name(enum knob_id id, int value) {
    if (value == AUTO)
        return "auto";
    for (int i = 0; knob_table[id].words && knob_table[id].words[i]; i++)
        if (i == value)
            return knob_table[id].words[i];
    return "?";
}

struct knobs knobs_filled(int value) {
    struct knobs knobs;
    for (int id = 0; id < KNOB_COUNT; id++)
        knob_set(&knobs, (enum knob_id)id, value);
    knobs.formulas = (struct formulas){0};
    return knobs;
}

const char *knob_formula(const struct knobs *knobs, enum knob_id id) {
    const char *text = id == KNOB_mask    ? knobs->formulas.mask
                       : id == KNOB_score ? knobs->formulas.score
                       : id == KNOB_wants ? knobs->formulas.wants
                                          : "";
    return *text ? text : NULL;
}

bool knob_same(const struct knobs *a, const struct knobs *b, enum knob_id id) {
    const char *x = knob_formula(a, id), *y = knob_formula(b, id);
    if (knob_get(a, id) != knob_get(b, id) || !x != !y)
        return false;
    return !x || (strcmp(x, y) == 0 && strcmp(a->formulas.params, b->formulas.params) == 0);
}

int knob_meant(const struct knobs *knobs, enum knob_id id) {
    if (knob_get(knobs, id) != AUTO)
        return knob_get(knobs, id);
    return id == KNOB_dtype_out || id == KNOB_dtype_kv ? knobs->dtype
           : id == KNOB_head_dim_v                     ? knobs->head_dim
                                                       : knob_table[id].fallback;
}

bool knobs_same_problem(const struct knobs *a, const struct knobs *b) {
    for (enum knob_id id = 0; id < KNOB_COUNT; id++) {
        bool asked = knob_table[id].group == KNOB_GROUP_PROBLEM || id == KNOB_family;
        if (asked && knob_meant(a, id) != knob_meant(b, id))
            return false;
        if (asked && knob_get(a, id) == knob_get(b, id) && !knob_same(a, b, id)) /* expressions */
            return false;
    }
    return true;
}

struct knobs knobs_default(void) {
    struct knobs knobs = knobs_filled(AUTO);
    for (int id = 0; id < KNOB_COUNT; id++)
        knob_set(&knobs, id, knob_table[id].fallback);
    return knobs;
}
