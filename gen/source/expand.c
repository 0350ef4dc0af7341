/* expand: template + variant -> source. The body is written first, because the prologue above it holds only constants
   that the body mentions; then header, prologue and body are joined with one line map. */
#include "emit.h"
#include "formula_code.h"

#include <stdlib.h>
#include <string.h>

struct expansion {
    struct source *source;
    struct emitter body;
    struct emit_facts facts;
    struct formula_set formulas;
    bool headed[TEMPLATE_FILES]; /* files whose name has been written */
    int workspaces;
};

static const char *name_of(const struct expansion *x, const struct walk *walk, const struct template_file *file) {
    return x->source->files[file - walk->template->file];
}

static bool put(struct walk *walk, const struct template_file *file, const struct template_op *op, const char *bytes,
                size_t size) {
    struct expansion *x = walk->context;
    return emit_bytes(&x->body, bytes, size, name_of(x, walk, file), op->line) ||
           walk_fail(walk, (struct place){&file->input, op->line, 1}, "the source is larger than %d MiB here",
                     EMIT_LIMIT >> 20);
}

/* Writes the name of a part above its first nonempty line. */
static bool put_heading(struct walk *walk, const struct template_file *file, const struct template_op *op) {
    struct expansion *x = walk->context;
    int index = (int)(file - walk->template->file);
    bool blank = true;
    for (int i = 0; op->kind == OP_TEXT && blank && i < op->size; i++)
        blank = text_is_blank(op->text[i]) || op->text[i] == '\n';
    if (index == 0 || x->headed[index] || (op->kind == OP_TEXT && blank))
        return true;
    x->headed[index] = true;
    return put(walk, file, op, "\n", 1) && put(walk, file, op, "// ", 3) &&
           put(walk, file, op, file->name, strlen(file->name)) && put(walk, file, op, "\n", 1);
}

static bool put_text(struct walk *walk, const struct template_file *file, const struct template_op *op) {
    return put_heading(walk, file, op) && put(walk, file, op, op->text, (size_t)op->size);
}

static bool put_value(struct walk *walk, const struct template_file *file, const struct template_op *op) {
    struct expr_env env = walk_env(walk);
    char value[64];
    int64_t number;
    if (!expr_eval(op->expr[0], &env, &number, &walk->fault))
        return false;
    expr_print_value(expr_type(op->expr[0]), number, value, sizeof value);
    return put_heading(walk, file, op) && put(walk, file, op, value, strlen(value));
}

static bool put_code(struct walk *walk, const struct template_file *file, const struct template_op *op) {
    struct expansion *x = walk->context;
    struct text code = {0};
    formula_code_print(&x->formulas, (enum formula_code)op->index, &code);
    bool good = put_heading(walk, file, op) && put(walk, file, op, text_string(&code), code.size);
    x->body.text.failed |= code.failed;
    text_free(&code);
    return good;
}

static bool keep_part(struct walk *walk, const struct template_file *file, const struct template_op *op) {
    struct expansion *x = walk->context;
    (void)file;
    x->facts.part[x->facts.parts++] = walk->template->file[op->index].name;
    return true;
}

static bool keep_let(struct walk *walk, const struct template_file *file, const struct template_op *op) {
    struct expansion *x = walk->context;
    (void)file;
    x->facts.let[x->facts.lets++] = op; /* each slot is set once, so there is room */
    return true;
}

static bool keep_launch(struct walk *walk, const struct template_file *file, const struct template_op *op) {
    struct plan *plan = &((struct expansion *)walk->context)->source->plan;
    struct expr_env env = walk_env(walk);
    int64_t block, shared, cluster = 1;
    if (plan->launches == PLAN_LAUNCHES)
        return walk_fail(walk, (struct place){&file->input, op->line, 1}, "more than %d launches", PLAN_LAUNCHES);
    struct plan_launch *launch = &plan->launch[plan->launches++];
    memcpy(launch->entry, op->text, (size_t)op->size);
    launch->entry[op->size] = '\0';
    if (!expr_plan(op->expr[0], &env, &launch->grid, &walk->fault) ||
        !expr_eval(op->expr[1], &env, &block, &walk->fault) || !expr_eval(op->expr[2], &env, &shared, &walk->fault) ||
        (op->expr[3] && !expr_eval(op->expr[3], &env, &cluster, &walk->fault)))
        return false;
    launch->block = (int)block; /* within the target's limits: the variant is feasible */
    launch->shared = (int)shared;
    launch->cluster = cluster > 1 ? (int)cluster : 0;
    launch->dependent = op->dependent && target_starts_dependents(target_info(walk->knobs->target));
    launch->params = (enum plan_params)op->index;
    launch->fills_tables = op->flag;
    return true;
}

/* Several parts may need workspace: each begins where the previous one ends, rounded up to the alignment. */
static bool keep_workspace(struct walk *walk, const struct template_file *file, const struct template_op *op) {
    enum { ALIGNMENT = 256 };
    static const struct plan_step up[] = {{PLAN_CONSTANT, ALIGNMENT - 1}, {PLAN_ADD, 0},
                                          {PLAN_CONSTANT, ALIGNMENT},     {PLAN_DIVIDE, 0},
                                          {PLAN_CONSTANT, ALIGNMENT},     {PLAN_MULTIPLY, 0}};
    enum { UP = sizeof up / sizeof *up };
    struct expansion *x = walk->context;
    struct plan_expr *all = &x->source->plan.workspace, more;
    struct expr_env env = walk_env(walk);
    if (!expr_plan(op->expr[0], &env, &more, &walk->fault))
        return false;
    if (!x->workspaces++) {
        *all = more;
        return true;
    }
    if (all->count + UP + more.count + 1 > PLAN_STEPS)
        return walk_fail(walk, (struct place){&file->input, op->line, 1}, "too long for a launch plan");
    memcpy(&all->step[all->count], up, sizeof up);
    memcpy(&all->step[all->count + UP], more.step, (size_t)more.count * sizeof *more.step);
    all->count += UP + more.count + 1;
    all->step[all->count - 1] = (struct plan_step){PLAN_ADD, 0};
    return true;
}

static bool keep_splits(struct walk *walk, const struct template_file *file, const struct template_op *op) {
    struct plan_splits *splits = &((struct expansion *)walk->context)->source->plan.splits;
    struct expr_env env = walk_env(walk);
    (void)file;
    for (int i = 0; i < PLAN_SPLIT_EXPRS; i++)
        if (op->expr[i] && !expr_plan(op->expr[i], &env, &splits->expr[i], &walk->fault))
            return false;
    return true;
}

static bool keep_map(struct walk *walk, const struct template_file *file, const struct template_op *op) {
    struct plan *plan = &((struct expansion *)walk->context)->source->plan;
    struct expr_env env = walk_env(walk);
    int64_t rows, cols;
    (void)file;
    if (!expr_eval(op->expr[0], &env, &rows, &walk->fault) || !expr_eval(op->expr[1], &env, &cols, &walk->fault))
        return false;
    struct plan_map *map = &plan->map[plan->maps++]; /* there is room: the variant is feasible */
    *map = (struct plan_map){
        .tensor = (enum plan_tensor)op->index, .rows = (int)rows, .cols = (int)cols, .packed = op->flag};
    memcpy(map->name, op->text, (size_t)op->size);
    return true;
}

/* Writes "struct tensor_map q_map, k_map;", in lines of readable width. */
static bool put_maps(struct walk *walk, const struct template_file *file, const struct template_op *op) {
    enum { WIDTH = 90 };
    struct expansion *x = walk->context;
    const struct plan *plan = &x->source->plan;
    struct text text = {0};
    size_t start = 0;
    for (int i = 0; i < plan->maps; i++) {
        bool full = text.size - start > WIDTH;
        start = full ? text.size + 2 : start;
        text_print(&text, "%s%s%s_map", full ? ";\n" : "", i == 0 || full ? "    struct tensor_map " : ", ",
                   plan->map[i].name);
    }
    text_print(&text, plan->maps ? ";\n" : "");
    bool good = put(walk, file, op, text_string(&text), text.size);
    x->body.text.failed |= text.failed;
    text_free(&text);
    return good;
}

/* Notes the lets that launches, workspace, maps and values refer to, so that the header explains them. */
static void note_names(struct expansion *x, const struct walk *walk, const struct template_op *op) {
    for (int i = 0; i < TEMPLATE_EXPRS; i++)
        for (int j = 0; op->expr[i] && j < walk->template->slots; j++)
            x->facts.said[j] |= expr_names(op->expr[i], j);
}

/* The first of two walks collects the plan, to which text may refer before the directives that define it. */
static bool visit_plan(struct walk *walk, const struct template_file *file, const struct template_op *op) {
    static walk_visitor *const visitors[] = {[OP_LAUNCH] = keep_launch,
                                             [OP_WORKSPACE] = keep_workspace,
                                             [OP_SPLITS] = keep_splits,
                                             [OP_MAP] = keep_map,
                                             [OP_MAPS] = NULL};
    walk_visitor *visitor = (size_t)op->kind < sizeof visitors / sizeof *visitors ? visitors[op->kind] : NULL;
    if (visitor)
        note_names(walk->context, walk, op);
    return !visitor || visitor(walk, file, op); /* derive.c has handled defaults and requires */
}

static bool visit_text(struct walk *walk, const struct template_file *file, const struct template_op *op) {
    static walk_visitor *const visitors[] = {[OP_TEXT] = put_text, [OP_VALUE] = put_value, [OP_INCLUDE] = keep_part,
                                             [OP_LET] = keep_let,  [OP_CODE] = put_code,   [OP_MAPS] = put_maps};
    walk_visitor *visitor = (size_t)op->kind < sizeof visitors / sizeof *visitors ? visitors[op->kind] : NULL;
    if (op->kind == OP_VALUE)
        note_names(walk->context, walk, op);
    return !visitor || visitor(walk, file, op);
}

/* Copies all file names, for the line map. */
static bool copy_names(struct source *source, const struct template *template) {
    source->files = calloc((size_t) template->files, sizeof *source->files);
    for (int i = 0; source->files && i < template->files; i++) {
        source->files[i] = strdup(template->file[i].name);
        if (!source->files[i])
            return false;
        source->file_count++;
    }
    return source->files != NULL;
}

/* Header and prologue, then the body below them. */
static bool assemble(struct expansion *x) {
    struct source *source = x->source;
    struct emitter top = {0};
    struct emit_mentions mentions = {.facts = &x->facts};
    emit_finish(&x->body);
    emit_prune(&x->body, &mentions);
    emit_header(&top, &mentions);
    emit_prologue(&top, &mentions);
    if (x->body.lines == 0)
        emit_finish(&top); /* no empty line at the end */
    source->text = top.text;
    source->origin = top.origin;
    source->lines = top.lines;
    text_append(&source->text, text_string(&x->body.text), x->body.text.size);
    size_t lines = (size_t)top.lines + (size_t)x->body.lines;
    struct line_origin *origin = realloc(top.origin, lines * sizeof *origin);
    if (!origin)
        return false;
    source->origin = origin;
    if (source->text.failed || x->body.text.failed)
        return false;
    for (int i = 0; i < x->body.lines; i++)
        origin[top.lines + i] = x->body.origin[i];
    source->lines = (int)lines;
    return true;
}

bool source_expand(const struct template_set *set, const struct variant *variant, const char *spec_name,
                   struct source *source, struct diag *diag) {
    const struct template_row *row;
    char reason[VARIANT_REASON];
    *source = (struct source){0};
    source->plan.workspace = (struct plan_expr){.count = 1, .step = {{PLAN_CONSTANT, 0}}};
    const struct template *template = template_find(set, &variant->knobs, &row, reason, sizeof reason);
    if (!variant->feasible || !template) {
        diag_error(diag, (struct place){0}, "this variant cannot be expanded: %s",
                   variant->feasible ? reason : variant->reason);
        return false;
    }
    struct knobs knobs = variant->knobs;
    struct expansion x = {.source = source,
                          .facts = {.variant = variant, .spec_name = spec_name, .plan = &source->plan}};
    const struct walk start = {.template = template, .knobs = &knobs, .visit = visit_plan, .context = &x};
    struct walk walk = start;
    x.facts.walk = &walk;

    bool good = formula_set_open(&x.formulas, &knobs) && copy_names(source, template);
    bool walked = good && walk_template(&walk);
    if (walked) {
        walk = start;
        walk.visit = visit_text;
        walk.with_text = true;
        walked = walk_template(&walk);
    }
    if (good && !walked) {
        diag_error(diag, walk.fault.place, "%s", walk.fault.message);
        diag_note(diag, (struct place){0}, "while expanding %s", variant->name);
    } else if (!good || !assemble(&x)) {
        diag_error(diag, (struct place){0}, "out of memory");
        good = false;
    }
    emit_free(&x.body);
    formula_set_close(&x.formulas);
    return good && walked;
}

void source_free(struct source *source) {
    text_free(&source->text);
    free(source->origin);
    for (int i = 0; i < source->file_count; i++)
        free(source->files[i]);
    free(source->files);
    *source = (struct source){0};
}
