#include "emit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- lines --- */

static bool ends_blank(const struct emitter *e) { /* true if the previous line is empty or does not exist */
    return e->line_start == 0 || (e->line_start >= 2 && e->text.bytes[e->line_start - 2] == '\n');
}

static void end_line(struct emitter *e) {
    struct text *text = &e->text;
    if (text->failed)
        return;
    while (text->size > e->line_start && text_is_blank(text->bytes[text->size - 1]))
        text->size--;
    if (text->size == e->line_start && ends_blank(e))
        return;
    if (e->lines == e->room) {
        int room = e->room ? 2 * e->room : 256;
        struct line_origin *origin = realloc(e->origin, (size_t)room * sizeof *origin);
        if (!origin) {
            text->failed = true;
            return;
        }
        e->origin = origin;
        e->room = room;
    }
    e->origin[e->lines++] = (struct line_origin){e->file, e->line};
    text_append(text, "\n", 1);
    e->line_start = text->size;
}

bool emit_bytes(struct emitter *e, const char *bytes, size_t size, const char *file, int line) {
    const char *at = bytes, *end = bytes + size;
    e->taken += size;
    if (e->taken > EMIT_LIMIT)
        return false;
    while (at < end && !e->text.failed) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        if (e->text.size == e->line_start) {
            e->file = file;
            e->line = line;
        }
        text_append(&e->text, at, (size_t)((newline ? newline : end) - at));
        if (newline)
            end_line(e);
        line++;
        at = newline ? newline + 1 : end;
    }
    return true;
}

void emit_print(struct emitter *e, const char *format, ...) {
    struct text text = {0};
    va_list arguments;
    va_start(arguments, format);
    text_vprint(&text, format, arguments);
    va_end(arguments);
    emit_bytes(e, text_string(&text), text.size, NULL, 0);
    e->text.failed |= text.failed;
    text_free(&text);
}

void emit_finish(struct emitter *e) {
    if (e->text.size > e->line_start)
        end_line(e);
    if (e->lines && ends_blank(e) && !e->text.failed) {
        e->text.bytes[--e->text.size] = '\0';
        e->line_start = e->text.size;
        e->lines--;
    }
}

void emit_free(struct emitter *e) {
    text_free(&e->text);
    free(e->origin);
    *e = (struct emitter){0};
}

/* --- header --- */

/* Prints a caller's text so that it can neither end the comment nor break its line. */
static void print_quoted(struct emitter *e, const char *s) {
    for (size_t plain; *s; s += plain + (s[plain] != '\0')) {
        for (plain = 0; (unsigned char)s[plain] >= ' ' && s[plain] != 127 && !(s[plain] == '*' && s[plain + 1] == '/');)
            plain++;
        emit_bytes(e, s, plain, NULL, 0);
        if (s[plain])
            emit_print(e, s[plain] == '*' ? "* " : "?");
    }
}

static void print_row(struct emitter *e, int width, const char *name, const char *value, const char *about) {
    emit_print(e, "     %-*s  %-17s  ", width, name, value);
    print_quoted(e, about);
    emit_print(e, "\n");
}

static void print_knobs(struct emitter *e, const struct variant *variant, int width) {
    emit_print(e, "\n   Knobs\n");
    for (int id = 0; id < KNOB_COUNT; id++) {
        const struct knob_info *info = &knob_table[id];
        char value[64];
        if (!knob_in(variant->used, id) || knob_is_open((enum knob_id)id, knob_get(&variant->knobs, (enum knob_id)id)))
            continue;
        expr_print_value((struct expr_type){info->words ? EXPR_WORD : EXPR_INT, info->words},
                         knob_get(&variant->knobs, id), value, sizeof value);
        const char *formula = knob_formula(&variant->knobs, (enum knob_id)id);
        print_row(e, width, info->name, value, formula ? formula : info->about);
    }
    if (*variant->knobs.formulas.params)
        print_row(e, width, "params", "", variant->knobs.formulas.params);
}

/* A let depends only on earlier ones, so one pass from the last to the first finds all. */
static int find_lets(const struct emit_mentions *mentions, bool shown[TEMPLATE_SLOTS]) {
    const struct emit_facts *facts = mentions->facts;
    int count = 0;
    for (int i = 0; i < TEMPLATE_SLOTS; i++)
        shown[i] = mentions->slot[i] || facts->said[i];
    for (int i = facts->lets - 1; i >= 0; i--) {
        const struct template_op *op = facts->let[i];
        for (int j = 0; shown[op->index] && j < facts->walk->template->slots; j++)
            shown[j] |= expr_names(op->expr[0], j);
        count += shown[op->index];
    }
    return count;
}

static void print_lets(struct emitter *e, const struct emit_facts *facts, const bool shown[TEMPLATE_SLOTS], int width) {
    emit_print(e, "\n   Derived\n");
    for (int i = 0; i < facts->lets; i++) {
        const struct template_op *op = facts->let[i];
        char value[64];
        if (!shown[op->index])
            continue;
        expr_print_value(expr_type(op->expr[0]), facts->walk->slot[op->index].value, value, sizeof value);
        print_row(e, width, facts->walk->template->slot_name[op->index], value, expr_text(op->expr[0]));
    }
}

static void print_plan(struct emitter *e, const struct plan *plan) {
    struct text text = {0};
    emit_print(e, "\n   Launches\n");
    for (int i = 0; i < plan->launches; i++) {
        const struct plan_launch *launch = &plan->launch[i];
        text_print(&text, "     %s: grid ", launch->entry);
        plan_print(&launch->grid, &text);
        text_print(&text, ", block %d, shared %d bytes", launch->block, launch->shared);
        if (launch->cluster)
            text_print(&text, ", clusters of %d blocks", launch->cluster);
        if (launch->dependent)
            text_print(&text, ", may start before the launch ahead of it has ended");
        if (launch->params)
            text_print(&text, ", takes %s", plan_params_table[launch->params].name);
        if (launch->fills_tables)
            text_print(&text, ", fills the tables of the mask");
        text_print(&text, "\n");
    }
    for (int i = 0; i < plan->maps; i++) {
        const struct plan_map *map = &plan->map[i];
        const char *tensor = plan_tensor_name[map->tensor];
        bool named = strcmp(map->name, tensor) != 0;
        text_print(&text, "     tensor map %s%sof %s: boxes of %d rows x %d columns%s\n", named ? map->name : "",
                   named ? " " : "", tensor, map->rows, map->cols,
                   map->packed ? ", the heads of a K/V head packed" : "");
    }
    if (plan->splits.expr[PLAN_SPLIT_MOST].count) {
        text_print(&text, "     splits:");
        plan_print_splits(&plan->splits, &text);
        text_print(&text, "\n");
    }
    text_print(&text, "\n   Workspace\n     ");
    plan_print(&plan->workspace, &text);
    emit_print(e, "%s bytes\n", text_string(&text));
    e->text.failed |= text.failed;
    text_free(&text);
}

void emit_header(struct emitter *e, const struct emit_mentions *mentions) {
    const struct emit_facts *facts = mentions->facts;
    bool shown[TEMPLATE_SLOTS];
    int lets = find_lets(mentions, shown), width = 10;
    for (int i = 0; i < facts->lets; i++) {
        int size = (int)strlen(facts->walk->template->slot_name[facts->let[i]->index]);
        width = shown[facts->let[i]->index] && size > width ? size : width;
    }
    emit_print(e, "/* %s\n\n   Generated by attile %s for ", facts->variant->name, GEN_VERSION);
    print_quoted(e, facts->spec_name);
    emit_print(e, " from these templates; change them, not this file\n     %s\n", facts->walk->template->name);
    for (int i = 0; i < facts->parts; i++) {
        emit_print(e, "     ");
        print_quoted(e, facts->part[i]);
        emit_print(e, "\n");
    }
    print_knobs(e, facts->variant, width);
    if (lets)
        print_lets(e, facts, shown, width);
    print_plan(e, facts->plan);
    emit_print(e, "*/\n\n");
}

/* --- prologue --- */

void emit_mention(struct emit_mentions *mentions, const char *name, size_t size) {
    int knob = template_constant(name, size);
    if (knob >= 0)
        mentions->knobs |= KNOB_FLAG(knob);
    for (int i = 0; i < mentions->facts->lets; i++) {
        int slot = mentions->facts->let[i]->index;
        const char *upper = mentions->facts->walk->template->slot_upper[slot];
        if (text_equals(name, size, upper))
            mentions->slot[slot] = true;
    }
}

/* Prints "constexpr int NAME = VALUE;" with a type that holds the value. */
static void print_constant(struct text *text, struct expr_type type, const char *name, int64_t value) {
    bool wide = value < INT32_MIN || value > INT32_MAX;
    const char *kind = type.kind == EXPR_BOOL ? "bool" : wide ? "long long" : "int";
    if (type.kind == EXPR_BOOL)
        text_print(text, "constexpr %s %s = %s;", kind, name, value ? "true" : "false");
    else if (value == INT64_MIN) /* C++ has no literal for it */
        text_print(text, "constexpr %s %s = -%" PRId64 " - 1;", kind, name, INT64_MAX);
    else
        text_print(text, "constexpr %s %s = %" PRId64 ";", kind, name, value);
}

/* The text of a let that becomes a constant. */
struct let_line {
    struct text constant; /* "constexpr int ROWS = 16;" */
    const char *formula;  /* "" if it is just the value, which explains nothing */
};

static void make_let_line(const struct emit_facts *facts, const struct template_op *op, struct let_line *line) {
    int64_t value = facts->walk->slot[op->index].value;
    char shown[64];
    expr_print_value(expr_type(op->expr[0]), value, shown, sizeof shown);
    print_constant(&line->constant, expr_type(op->expr[0]), facts->walk->template->slot_upper[op->index], value);
    line->formula = strcmp(shown, expr_text(op->expr[0])) == 0 ? "" : expr_text(op->expr[0]);
}

/* Formulas are printed next to their constants, aligned; all of them above the constants if one is too long for
   that. */
static void print_let_lines(struct emitter *e, const struct let_line *line, int count) {
    enum { COLUMNS = 120 };
    size_t width = 0, formula = 0;
    for (int i = 0; i < count; i++) {
        width = line[i].constant.size > width ? line[i].constant.size : width;
        formula = strlen(line[i].formula) > formula ? strlen(line[i].formula) : formula;
    }
    bool above = width + formula + strlen(" // ") > COLUMNS;
    for (int i = 0; i < count; i++) {
        const char *constant = text_string(&line[i].constant);
        if (!*line[i].formula)
            emit_print(e, "%s\n", constant);
        else if (above)
            emit_print(e, "// %s\n%s\n", line[i].formula, constant);
        else
            emit_print(e, "%-*s // %s\n", (int)width, constant, line[i].formula);
    }
}

void emit_prologue(struct emitter *e, const struct emit_mentions *mentions) {
    const struct emit_facts *facts = mentions->facts;
    for (int id = 0; id < KNOB_COUNT; id++) {
        char name[64];
        if (!knob_in(mentions->knobs & facts->variant->used, id))
            continue;
        size_t size = strlen(knob_table[id].name);
        for (size_t i = 0; i <= size && i < sizeof name; i++) {
            char c = knob_table[id].name[i];
            name[i] = c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
        }
        emit_print(e, "constexpr int %s = %d;\n", name, knob_get(&facts->variant->knobs, id));
    }
    struct let_line line[TEMPLATE_SLOTS] = {0};
    int lines = 0;
    for (int i = 0; i < facts->lets; i++)
        if (mentions->slot[facts->let[i]->index] && expr_type(facts->let[i]->expr[0]).kind != EXPR_WORD)
            make_let_line(facts, facts->let[i], &line[lines++]);
    print_let_lines(e, line, lines);
    for (int i = 0; i < lines; i++) {
        e->text.failed |= line[i].constant.failed;
        text_free(&line[i].constant);
    }
    emit_print(e, "\n");
}
