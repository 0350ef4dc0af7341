/* derive: some knobs -> all knobs, or why not. Problem knobs that follow from others are filled in here, schedule knobs
   by the template's table of defaults and its `default` directives. Then the template's conditions and the target's
   limits are checked. */
#include "walk.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

struct counts {
    int launches, maps;
    bool splits;
    const struct template_op *map[PLAN_MAPS];
    int64_t block_threads, shared_bytes; /* largest of all launches */
    struct plan_expr grid;               /* of the last one that takes the family's parameters */
    struct plan_splits parts;
};

/* The place for the walk's fault; variant_complete appends it. */
static struct place line_of(const struct template_file *file, const struct template_op *op) {
    return (struct place){&file->input, op->line, 1};
}

static bool in_range(enum knob_id id, int64_t value) {
    const struct knob_info *info = &knob_table[id];
    if (info->kind == KNOB_KIND_INT)
        return value >= info->least && value <= info->most;
    return value >= 0 && value <= INT32_MAX && knob_word_name(id, (int)value)[0] != '?';
}

static bool set_default(struct walk *walk, const struct template_file *file, const struct template_op *op) {
    enum knob_id id = (enum knob_id)op->index;
    struct expr_env env = walk_env(walk);
    int64_t value;
    if (knob_get(walk->knobs, id) != AUTO)
        return true;
    if (!expr_eval(op->expr[0], &env, &value, &walk->fault))
        return false;
    if (!in_range(id, value))
        return walk_fail(walk, line_of(file, op), "the default %s = %s is %lld, not within %d to %d",
                         knob_table[id].name, expr_text(op->expr[0]), (long long)value, knob_table[id].least,
                         knob_table[id].most);
    knob_set(walk->knobs, id, (int)value);
    return true;
}

static bool set_defaults(struct walk *walk) {
    struct expr_env env = walk_env(walk);
    const struct defaults *defaults = walk->template->defaults;
    const struct default_row *row = defaults_find(defaults, &env, &walk->fault);
    for (int id = 0; row && id < KNOB_COUNT; id++)
        if (knob_in(defaults->given, id) && knob_get(walk->knobs, id) == AUTO)
            knob_set(walk->knobs, id, knob_get(&row->schedule, id));
    return row != NULL;
}

static bool check_require(struct walk *walk, const struct template_file *file, const struct template_op *op) {
    struct expr_env env = walk_env(walk);
    int64_t holds;
    if (!expr_eval(op->expr[0], &env, &holds, &walk->fault))
        return false;
    if (holds)
        return true;
    expr_print_failed(op->expr[0], &env, walk->fault.message, sizeof walk->fault.message);
    walk->fault.place = line_of(file, op);
    return false;
}

static bool check_launch(struct walk *walk, const struct template_file *file, const struct template_op *op) {
    const struct target_info *target = target_info(walk->knobs->target);
    struct expr_env env = walk_env(walk);
    struct counts *counts = walk->context;
    struct plan_expr grid;
    int64_t block, shared, cluster = 1;
    if (!expr_plan(op->expr[0], &env, &grid, &walk->fault) || !expr_eval(op->expr[1], &env, &block, &walk->fault) ||
        !expr_eval(op->expr[2], &env, &shared, &walk->fault) ||
        (op->expr[3] && !expr_eval(op->expr[3], &env, &cluster, &walk->fault)))
        return false;
    if (block < 1 || block > target->threads)
        return walk_fail(walk, line_of(file, op), "a block of %lld threads is not within 1 to %d of target %s",
                         (long long)block, target->threads, target->name);
    if (shared < 0 || shared > target->shared_bytes)
        return walk_fail(walk, line_of(file, op), "%lld bytes of shared memory are not within 0 to %d of target %s",
                         (long long)shared, target->shared_bytes, target->name);
    if (cluster < 1 || cluster > PLAN_CLUSTER)
        return walk_fail(walk, line_of(file, op), "a cluster of %lld blocks is not within 1 to %d", (long long)cluster,
                         PLAN_CLUSTER);
    if (cluster > 1 && walk->knobs->target != target_sm_90a)
        return walk_fail(walk, line_of(file, op), "a cluster of %lld blocks needs target sm_90a, and this is %s",
                         (long long)cluster, target->name);
    if (op->index == PLAN_PARAMS_USUAL || counts->launches == 0)
        counts->grid = grid;
    counts->block_threads = block > counts->block_threads ? block : counts->block_threads;
    counts->shared_bytes = shared > counts->shared_bytes ? shared : counts->shared_bytes;
    if (++counts->launches > PLAN_LAUNCHES)
        return walk_fail(walk, line_of(file, op), "more than %d launches", PLAN_LAUNCHES);
    return true;
}

static bool check_workspace(struct walk *walk, const struct template_file *file, const struct template_op *op) {
    struct expr_env env = walk_env(walk);
    struct plan_expr bytes;
    (void)file;
    return expr_plan(op->expr[0], &env, &bytes, &walk->fault);
}

static bool check_splits(struct walk *walk, const struct template_file *file, const struct template_op *op) {
    struct expr_env env = walk_env(walk);
    struct counts *counts = walk->context;
    if (counts->splits)
        return walk_fail(walk, line_of(file, op), "a second 'splits'");
    counts->splits = true;
    for (int i = 0; i < PLAN_SPLIT_EXPRS; i++)
        if (op->expr[i] && !expr_plan(op->expr[i], &env, &counts->parts.expr[i], &walk->fault))
            return false;
    return true;
}

static bool check_map(struct walk *walk, const struct template_file *file, const struct template_op *op) {
    struct expr_env env = walk_env(walk);
    int64_t rows, cols;
    if (!expr_eval(op->expr[0], &env, &rows, &walk->fault) || !expr_eval(op->expr[1], &env, &cols, &walk->fault))
        return false;
    if (rows < 1 || rows > 256 || cols < 1 || cols > 256) /* cuTensorMapEncodeTiled, boxDim */
        return walk_fail(walk, line_of(file, op), "a box of %lld x %lld is not within 1 to 256 rows and columns",
                         (long long)rows, (long long)cols);
    struct counts *counts = walk->context;
    if (counts->maps == PLAN_MAPS)
        return walk_fail(walk, line_of(file, op), "more than %d tensor maps", PLAN_MAPS);
    for (int i = 0; i < counts->maps; i++)
        if (counts->map[i]->size == op->size && memcmp(counts->map[i]->text, op->text, (size_t)op->size) == 0)
            return walk_fail(walk, line_of(file, op), "a second tensor map %.*s", op->size, op->text);
    counts->map[counts->maps++] = op;
    return true;
}

static bool visit(struct walk *walk, const struct template_file *file, const struct template_op *op) {
    switch (op->kind) {
    case OP_DEFAULT: return set_default(walk, file, op);
    case OP_DEFAULTS: return set_defaults(walk);
    case OP_REQUIRE: return check_require(walk, file, op);
    case OP_LAUNCH: return check_launch(walk, file, op);
    case OP_WORKSPACE: return check_workspace(walk, file, op);
    case OP_SPLITS: return check_splits(walk, file, op);
    case OP_MAP: return check_map(walk, file, op);
    default: return true;
    }
}

static bool refuse(struct variant *variant, const char *format, ...) TEXT_PRINTF(2, 3);
static bool refuse(struct variant *variant, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(variant->reason, sizeof variant->reason, format, arguments);
    va_end(arguments);
    return false;
}

/* Every given value must be allowed by the table. */
static bool check_given(struct variant *variant) {
    for (int id = 0; id < KNOB_COUNT; id++) {
        int value = knob_get(&variant->knobs, id);
        const struct knob_info *info = &knob_table[id];
        if (value == AUTO || in_range(id, value))
            continue;
        if (info->kind == KNOB_KIND_INT)
            return refuse(variant, "%s is %d, not within %d to %d", info->name, value, info->least, info->most);
        return refuse(variant, "%s has no word number %d", info->name, value);
    }
    return true;
}

/* Knobs that the template does not use become AUTO; giving one is an error when `strict`. */
static bool drop_unused(struct variant *variant, const struct template *template, bool strict) {
    for (int id = 0; id < KNOB_COUNT; id++) {
        int value = knob_get(&variant->knobs, id);
        char shown[64];
        if (knob_in(variant->used, id))
            continue;
        expr_print_value((struct expr_type){knob_table[id].words ? EXPR_WORD : EXPR_INT, knob_table[id].words}, value,
                         shown, sizeof shown);
        bool same = id == KNOB_dtype_kv && value == variant->knobs.dtype; /* equivalent to leaving it out */
        if (strict && value != AUTO && value != knob_table[id].fallback && !same)
            return refuse(variant, "%s is given as %s, and %s does not use it", knob_table[id].name, shown,
                          template->name);
        knob_set(&variant->knobs, id, AUTO);
    }
    if (!knob_in(variant->used, KNOB_mask) && !knob_in(variant->used, KNOB_score))
        variant->knobs.formulas = (struct formulas){0};
    if (!knob_in(variant->used, KNOB_wants))
        memset(variant->knobs.formulas.wants, 0, FORMULAS_TEXT);
    return true;
}

static bool run_directives(struct variant *variant, const struct template *template) {
    struct counts counts = {0};
    struct walk walk = {.template = template, .knobs = &variant->knobs, .visit = visit, .context = &counts};
    if (!walk_template(&walk))
        return refuse(variant, "%s (%s:%d)", walk.fault.message, walk.fault.place.input->name, walk.fault.place.line);
    for (int i = 0; i < DERIVED_COUNT; i++)
        if (template->derived[i] >= 0 && walk.slot[template->derived[i]].set)
            variant->derived[i] = (int)walk.slot[template->derived[i]].value;
    variant->launches = counts.launches;
    variant->grid = counts.grid;
    variant->splits = counts.parts;
    variant->block_threads = (int)counts.block_threads;
    variant->shared_bytes = (int)counts.shared_bytes;
    variant->boxed = counts.maps > 0;
    if (counts.launches == 0)
        return refuse(variant, "%s launches nothing for these knobs", template->name);
    for (int id = 0; id < KNOB_COUNT; id++)
        if (knob_in(variant->used, id) && knob_get(&variant->knobs, id) == AUTO)
            return refuse(variant, "%s was left out and has no default here (%s)", knob_table[id].name, template->name);
    return true;
}

/* Sets knobs that follow from other knobs alone. */
static void derive(struct knobs *knobs, knob_flags used) {
    if (knobs->dtype_out == AUTO && knob_in(used, KNOB_dtype_out))
        knobs->dtype_out = knobs->dtype; /* both lists have the same words in the same order */
    if (knobs->dtype_kv == AUTO && knob_in(used, KNOB_dtype_kv))
        knobs->dtype_kv = knobs->dtype; /* its list begins with the same words */
    if (knobs->head_dim_v == AUTO && knob_in(used, KNOB_head_dim_v))
        knobs->head_dim_v = knobs->head_dim;
    if (knobs->target == AUTO)
        knobs->target = target_any;
}

/* True for an option that is not used. The loop order is not an option: it determines the template. */
static bool is_off(const struct knobs *knobs, enum knob_id id) {
    return knob_table[id].group == KNOB_GROUP_SCHEDULE && knob_table[id].fallback != AUTO && id != KNOB_loop_order &&
           knob_get(knobs, id) == knob_table[id].fallback;
}

/* True if Q is where most variants have it. */
static bool is_q_shared(const struct knobs *knobs, enum knob_id id) {
    return id == KNOB_q_in && knobs->q_in == q_in_q_shared;
}

/* True if a name may omit the knob because its value is implied. */
static bool is_implied(const struct knobs *knobs, enum knob_id id) {
    return (id == KNOB_dtype_out && knobs->dtype_out == knobs->dtype) ||
           (id == KNOB_dtype_kv && knobs->dtype_kv == knobs->dtype) ||
           (id == KNOB_head_dim_v && knobs->head_dim_v == knobs->head_dim) ||
           (id == KNOB_score && knobs->score == score_scaled) || (id == KNOB_target && knobs->target == target_any) ||
           knob_is_open(id, knob_get(knobs, id)) || is_off(knobs, id) || is_q_shared(knobs, id);
}

/* Hashes an expression and its parameters with their types, for which a name has no room. */
static uint64_t hash_formula(const char *formula, const char *params) {
    char both[2 * FORMULAS_TEXT];
    int size = snprintf(both, sizeof both, "%s\n%s", formula, params);
    return XXH3_64bits(both, (size_t)size);
}

/* Prints one knob's part of the name: "causal", "d64", "mask_3f2a9c1b6d0e4857". */
static void print_part(const struct knobs *knobs, enum knob_id id, char *part, size_t size) {
    const struct knob_info *info = &knob_table[id];
    const char *formula = knob_formula(knobs, id);
    int value = knob_get(knobs, id);
    if (formula)
        snprintf(part, size, "%s_%016" PRIx64, info->name, hash_formula(formula, knobs->formulas.params));
    else if (info->words)
        snprintf(part, size, "%s%s", info->prefix, knob_word_name(id, value));
    else
        snprintf(part, size, "%s%d", info->prefix, value);
}

/* Names are unique: words of different knobs differ, numbers have their knob's prefix, omitted values are implied by
   the others, and expressions differ in a 64-bit hash. */
static bool make_name(struct variant *variant) {
    size_t at = 0;
    for (int id = 0; id < KNOB_COUNT; id++) {
        char part[VARIANT_NAME];
        if (!knob_in(variant->used, id) || is_implied(&variant->knobs, id))
            continue;
        print_part(&variant->knobs, id, part, sizeof part);
        int size = snprintf(variant->name + at, VARIANT_NAME - at, "%s%s", at ? "_" : "", part);
        if (size < 0 || (size_t)size >= VARIANT_NAME - at)
            return refuse(variant, "its name is longer than %d letters", VARIANT_NAME - 1);
        at += (size_t)size;
    }
    return true;
}

bool variant_complete(const struct template_set *set, const struct knobs *knobs, bool strict, struct variant *variant) {
    const struct template_row *row = NULL;
    variant->knobs = *knobs;
    variant->used = 0;
    variant->feasible = variant->boxed = false;
    variant->block_threads = variant->shared_bytes = variant->launches = 0;
    variant->grid = (struct plan_expr){0};
    for (int i = 0; i < DERIVED_COUNT; i++)
        variant->derived[i] = DERIVED_NONE;
    variant->name[0] = variant->reason[0] = '\0';
    if (!check_given(variant))
        return false;
    const struct template *template =
        template_find(set, &variant->knobs, &row, variant->reason, sizeof variant->reason);
    if (!template)
        return false;
    variant->knobs.algorithm = row->algorithm;
    variant->used = template->used | KNOB_FLAG(KNOB_family) | KNOB_FLAG(KNOB_algorithm) | KNOB_FLAG(KNOB_target);
    if (row->loop_order != ANY_LOOP_ORDER) {
        variant->knobs.loop_order = row->loop_order;
        variant->used |= KNOB_FLAG(KNOB_loop_order);
    }
    derive(&variant->knobs, variant->used); /* first: head_dim_v may follow from a head_dim that is not used itself */
    if (!drop_unused(variant, template, strict))
        return false;
    variant->feasible = run_directives(variant, template) && make_name(variant);
    return variant->feasible;
}

const struct default_row *variant_default_row(const struct template_set *set, const struct variant *variant) {
    const struct template_row *row;
    char reason[VARIANT_REASON];
    struct expr_slot facts[FACT_COUNT];
    struct expr_fault fault;
    const struct template *template = template_find(set, &variant->knobs, &row, reason, sizeof reason);
    if (!template || !template->defaults || !facts_find(&variant->knobs, facts, reason))
        return NULL;
    return defaults_find(template->defaults, &(struct expr_env){&variant->knobs, facts}, &fault);
}

bool variant_same(const struct variant *a, const struct variant *b) {
    for (int id = 0; id < KNOB_COUNT; id++)
        if (!knob_same(&a->knobs, &b->knobs, (enum knob_id)id))
            return false;
    return true;
}

void variant_print(const struct variant *variant, struct text *text) {
    const char *separator = "";
    for (int id = 0; id < KNOB_COUNT; id++) {
        if (!knob_in(variant->used, id))
            continue;
        text_print(text, "%s%s: ", separator, knob_table[id].name);
        knob_print(&variant->knobs, (enum knob_id)id, text);
        separator = ", ";
    }
    if (*variant->knobs.formulas.params)
        text_print(text, "%sparams: \"%s\"", separator, variant->knobs.formulas.params);
}
