/* variant: spec -> variants, one at a time. An odometer over the axes of the spec. A wheel stands still while the
   template does not use its knob, so that equal variants are not tried twice. */
#include "expr.h"
#include "gen.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A value from `custom` on is an expression: keeps its word, copies the text and adds the parameters that it needs. */
static void take_formula(const struct spec *spec, int *value, int custom, char text[FORMULAS_TEXT], unsigned *params) {
    if (*value < custom)
        return;
    const struct spec_formula *formula = &spec->formula[*value - custom];
    snprintf(text, FORMULAS_TEXT, "%s", formula->text);
    *params |= formula->params;
    *value = custom;
}

static struct knobs knobs_at(const struct spec *spec, const int *index) {
    struct knobs knobs = knobs_filled(AUTO);
    unsigned params = 0;
    for (int id = 0; id < KNOB_COUNT; id++)
        knob_set(&knobs, (enum knob_id)id, spec->axis[id].value[index[id]]);
    take_formula(spec, &knobs.mask, mask_custom_mask, knobs.formulas.mask, &params);
    take_formula(spec, &knobs.score, score_custom_score, knobs.formulas.score, &params);
    take_formula(spec, &knobs.wants, wants_custom_wants, knobs.formulas.wants, &params);
    struct text text = {0};
    formula_print_params(&spec->params, params, &text);
    snprintf(knobs.formulas.params, FORMULAS_TEXT, "%s", text_string(&text));
    text_free(&text);
    return knobs;
}

/* Returns the knobs used by any template that the spec can choose: the choice depends only on algorithm and loop
   order. */
static knob_flags find_used_by_any(const struct variants *variants) {
    const struct spec_axis *algorithms = &variants->spec->axis[KNOB_algorithm];
    const struct spec_axis *orders = &variants->spec->axis[KNOB_loop_order];
    int index[KNOB_COUNT] = {0};
    knob_flags used = 0;
    for (index[KNOB_algorithm] = 0; index[KNOB_algorithm] < algorithms->count; index[KNOB_algorithm]++)
        for (index[KNOB_loop_order] = 0; index[KNOB_loop_order] < orders->count; index[KNOB_loop_order]++) {
            struct knobs knobs = knobs_at(variants->spec, index);
            struct variant variant;
            variant_complete(variants->set, &knobs, false, &variant);
            used |= variant.used;
        }
    return used;
}

void variants_open(struct variants *variants, const struct spec *spec, const struct template_set *set) {
    *variants = (struct variants){.spec = spec, .set = set};
    variants->used_by_any = find_used_by_any(variants);
}

/* A wheel stands still at 0 while the template does not use its knob. Only wheels that turn faster than the algorithm's
   may: the slower ones may matter to the next algorithm. */
static bool turns(const struct variants *variants, int id) {
    return id <= KNOB_algorithm || knob_in(variants->used, id);
}

static void advance(struct variants *variants) {
    for (int id = KNOB_COUNT - 1; id >= 0; id--) {
        if (turns(variants, id) && variants->index[id] + 1 < variants->spec->axis[id].count) {
            variants->index[id]++;
            return;
        }
        variants->index[id] = 0;
    }
    variants->done = true;
}

/* True if the same variant appears, earlier or later, at index 0 of the knobs that it does not use. */
static bool is_repeated(const struct variants *variants) {
    for (int id = 0; id < KNOB_COUNT; id++)
        if (!knob_in(variants->used, id) && variants->index[id] > 0)
            return true;
    return false;
}

static void refuse(struct variant *variant, const char *format, ...) TEXT_PRINTF(2, 3);
static void refuse(struct variant *variant, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(variant->reason, sizeof variant->reason, format, arguments);
    va_end(arguments);
    variant->feasible = false;
}

static bool check_condition(const struct variants *variants, int which, const struct knobs *knobs,
                            struct variant *variant) {
    const struct spec *spec = variants->spec;
    const struct expr *condition = spec->require[which];
    struct expr_env env = {.knobs = knobs};
    struct expr_fault fault;
    int64_t holds;
    int line = spec->require_place[which].line;
    if (!expr_eval(condition, &env, &holds, &fault)) {
        if (variant->feasible) /* else a knob may be open, and there is already a reason */
            refuse(variant, "%s:%d: %s", spec->input.name, line, fault.message);
        return !variant->feasible;
    }
    if (holds)
        return true;
    char failed[EXPR_MESSAGE];
    expr_print_failed(condition, &env, failed, sizeof failed);
    refuse(variant, "%s:%d: %s", spec->input.name, line, failed);
    return false;
}

/* The spec's own conditions come first: its author knows these reasons. */
static void check_conditions(const struct variants *variants, struct variant *variant) {
    for (int i = 0; i < variants->spec->requires; i++) {
        knob_flags needed = expr_knobs(variants->spec->require[i]);
        if ((needed & ~variants->used) == 0 && !check_condition(variants, i, &variant->knobs, variant))
            return;
    }
}

/* Refuses a knob that is given but cannot have any effect: a misunderstanding, not a choice. */
static bool check_given(const struct variants *variants, const struct knobs *given, struct variant *variant) {
    for (int id = 0; id < KNOB_COUNT; id++) {
        const struct spec_axis *axis = &variants->spec->axis[id];
        bool matters =
            knob_in(variants->used_by_any, id) || knob_get(given, (enum knob_id)id) == knob_table[id].fallback;
        if (axis->place.line == 0 || matters)
            continue;
        refuse(variant, "%s:%d: %s is given, and no algorithm of this spec uses it", variants->spec->input.name,
               axis->place.line, knob_table[id].name);
        return false;
    }
    return true;
}

bool variants_next(struct variants *variants, struct variant *variant) {
    while (!variants->done) {
        struct knobs given = knobs_at(variants->spec, variants->index);
        variant_complete(variants->set, &given, false, variant);
        variants->used = variant->used ? variant->used : KNOB_ALL; /* no template: no variants are known to be equal */
        bool repeated = is_repeated(variants);
        if (!repeated && (!variant->used || check_given(variants, &given, variant)))
            check_conditions(variants, variant);
        advance(variants);
        if (!repeated)
            return true;
    }
    return false;
}
