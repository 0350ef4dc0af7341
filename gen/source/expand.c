/* expand: template + variant -> source. The body is written first, because the prologue above it holds only what the
   body mentions; then header, prologue and body are put together with one line map. */
#include "emit.h"
#include "formula_code.h"

#include <stdlib.h>
#include <string.h>

struct expansion {
    struct source *source;
    struct emitter body;
    struct emit_facts facts;
    struct formula_set formulas;
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

static bool put_value(struct walk *walk, const struct template_file *file, const struct template_op *op) {
    struct expr_env env = walk_env(walk);
    char value[64];
    int64_t number;
    if (!expr_eval(op->expr[0], &env, &number, &walk->fault))
        return false;
    expr_print_value(expr_type(op->expr[0]), number, value, sizeof value);
    return put(walk, file, op, value, strlen(value));
}

static bool put_code(struct walk *walk, const struct template_file *file, const struct template_op *op) {
    struct expansion *x = walk->context;
    struct text code = {0};
    formula_code_print(&x->formulas, (enum formula_code)op->index, &code);
    bool good = put(walk, file, op, text_string(&code), code.size);
    x->body.text.failed |= code.failed;
    text_free(&code);
    return good;
}

static bool put_part(struct walk *walk, const struct template_file *file, const struct template_op *op) {
    struct expansion *x = walk->context;
    const char *name = walk->template->file[op->index].name;
    x->facts.part[x->facts.parts++] = name;
    return put(walk, file, op, "\n", 1) && put(walk, file, op, "// ", 3) && put(walk, file, op, name, strlen(name)) &&
           put(walk, file, op, "\n", 1);
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
    return true;
}

static bool keep_workspace(struct walk *walk, const struct template_file *file, const struct template_op *op) {
    struct expr_env env = walk_env(walk);
    (void)file;
    return expr_plan(op->expr[0], &env, &((struct expansion *)walk->context)->source->plan.workspace, &walk->fault);
}

static bool keep_map(struct walk *walk, const struct template_file *file, const struct template_op *op) {
    struct plan *plan = &((struct expansion *)walk->context)->source->plan;
    struct expr_env env = walk_env(walk);
    int64_t rows, cols;
    (void)file;
    if (!expr_eval(op->expr[0], &env, &rows, &walk->fault) || !expr_eval(op->expr[1], &env, &cols, &walk->fault))
        return false;
    plan->map[plan->maps++] = (struct plan_map){(enum plan_tensor)op->index, (int)rows, (int)cols, op->size};
    return true;
}

static bool put_text(struct walk *walk, const struct template_file *file, const struct template_op *op) {
    return put(walk, file, op, op->text, (size_t)op->size);
}

static bool visit(struct walk *walk, const struct template_file *file, const struct template_op *op) {
    static walk_visitor *const visitors[] = {
        [OP_TEXT] = put_text,      [OP_VALUE] = put_value,          [OP_INCLUDE] = put_part, [OP_LET] = keep_let,
        [OP_LAUNCH] = keep_launch, [OP_WORKSPACE] = keep_workspace, [OP_MAP] = keep_map,     [OP_CODE] = put_code,
    };
    walk_visitor *visitor = (size_t)op->kind < sizeof visitors / sizeof *visitors ? visitors[op->kind] : NULL;
    return !visitor || visitor(walk, file, op); /* defaults and requires had their say in derive.c */
}

/* Copies of all file names, for the line map. */
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
    emit_header(&top, &x->facts);
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
    struct walk walk = {.template = template, .knobs = &knobs, .visit = visit, .context = &x, .with_text = true};
    x.facts.walk = &walk;

    bool good = formula_set_open(&x.formulas, &knobs) && copy_names(source, template);
    bool walked = good && walk_template(&walk);
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
