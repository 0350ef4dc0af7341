/* template_read: the text of a template and its parts -> ops. Every line is read once, here. A comment that looks like a
   directive and is none is an error, so that a slip cannot turn into a harmless comment. After an error reading goes
   on, so that one pass finds them all; what was read is then thrown away. */
#include "formula_code.h"
#include "template.h"

#include <stdlib.h>
#include <string.h>

struct reader {
    struct template *template;
    template_loader *load;
    void *context;
    struct diag *diag;
    int depth;   /* of includes */
    bool failed; /* out of memory: stop at once */
};

/* One file being read. */
struct page {
    struct reader *reader;
    struct template_file *file;
    int room;         /* ops allocated */
    const char *line; /* the current line, without newline and blanks at its end */
    int size;
    int number;
    int nesting;
    int block[TEMPLATE_NESTING]; /* open blocks: op of the latest if, elif, else or for */
    int loops;                   /* how many of them are `for` */
};

/* A piece of the current line. */
struct slice {
    const char *text;
    int size;
};

static struct place place_at(const struct page *page, const char *at) {
    return (struct place){&page->file->input, page->number, (int)(at - page->line) + 1};
}

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

static struct slice trim(struct slice s) {
    while (s.size && is_blank(*s.text))
        s.text++, s.size--;
    while (s.size && is_blank(s.text[s.size - 1]))
        s.size--;
    return s;
}

static struct slice take_name(struct slice *rest) {
    *rest = trim(*rest);
    struct slice name = {rest->text, 0};
    while (name.size < rest->size && (is_letter(name.text[name.size]) || (name.size && is_digit(name.text[name.size]))))
        name.size++;
    rest->text += name.size;
    rest->size -= name.size;
    *rest = trim(*rest);
    return name;
}

static bool equals(struct slice s, const char *word) {
    return (size_t)s.size == strlen(word) && memcmp(s.text, word, (size_t)s.size) == 0;
}

/* A new op at the end of the file's list, or null. It takes over the expressions in `op`, also when it fails. */
static struct template_op *add_op(struct page *page, struct template_op op) {
    struct template_file *file = page->file;
    if (file->ops == page->room) {
        int room = page->room ? 2 * page->room : 32;
        struct template_op *grown = realloc(file->op, (size_t)room * sizeof *grown);
        if (!grown) {
            for (int i = 0; i < TEMPLATE_EXPRS; i++)
                expr_free(op.expr[i]);
            diag_error(page->reader->diag, (struct place){&file->input, 0, 0}, "out of memory");
            page->reader->failed = true;
            return NULL;
        }
        file->op = grown;
        page->room = room;
    }
    op.line = page->number;
    file->op[file->ops] = op;
    return &file->op[file->ops++];
}

/* Parse an expression that is all of `s`, or (with `used`) its beginning. */
static struct expr *read_expr(struct page *page, struct slice s, size_t *used, unsigned wanted, bool sizes) {
    struct template *t = page->reader->template;
    struct expr_scope scope = {t->slot, t->slots, sizes ? t->families : 0, NULL};
    struct expr *expr =
        expr_parse(place_at(page, s.text), s.text, (size_t)s.size, used, wanted, &scope, page->reader->diag);
    if (expr)
        t->used |= expr_knobs(expr);
    return expr;
}

/* --- text and values --- */

static void mark_used(void *context, const char *name, size_t size) {
    struct template *template = context;
    int knob = template_constant(name, size);
    if (knob >= 0)
        template->used |= 1u << knob;
}

static void add_text(struct page *page, const char *text, int size) {
    struct template_file *file = page->file;
    struct template_op *last = file->ops ? &file->op[file->ops - 1] : NULL;
    if (!size)
        return;
    if (last && last->kind == OP_TEXT && last->text + last->size == text) /* one op for a run of lines */
        last->size += size;
    else
        add_op(page, (struct template_op){.kind = OP_TEXT, .text = text, .size = size});
}

/* `$name`, `${expr}` or `$$` at `at`; returns its length. */
static int read_value(struct page *page, const char *at) {
    const char *end = page->line + page->size;
    struct slice inner = {at + 1, (int)(end - at) - 1};
    int size;
    if (inner.size && *inner.text == '$') {
        add_text(page, inner.text, 1);
        return 2;
    }
    if (inner.size && *inner.text == '{') {
        const char *close = memchr(inner.text, '}', (size_t)inner.size);
        if (!close) {
            diag_error(page->reader->diag, place_at(page, at), "'${' has no '}' on this line");
            return (int)(end - at);
        }
        inner = (struct slice){at + 2, (int)(close - at) - 2};
        size = inner.size + 3;
    } else {
        struct slice rest = inner;
        inner = !inner.size || is_blank(*inner.text) ? (struct slice){inner.text, 0} : take_name(&rest);
        size = inner.size + 1;
    }
    if (!inner.size) {
        diag_error(page->reader->diag, place_at(page, at),
                   "'$' begins a value: write $name, ${EXPR}, or $$ for a dollar");
        return size;
    }
    struct expr *expr = read_expr(page, inner, NULL, EXPR_ANY, false);
    if (expr)
        add_op(page, (struct template_op){.kind = OP_VALUE, .expr = {expr}});
    return size;
}

/* A line of text, its newline included; `whole` is its length with blanks at the end and newline. */
static void read_text(struct page *page, int whole) {
    const char *at = page->line, *end = at + whole;
    for (const char *dollar; (dollar = memchr(at, '$', (size_t)(end - at)));) {
        add_text(page, at, (int)(dollar - at));
        if (dollar - page->line >= 2 && dollar[-1] == '/' && dollar[-2] == '/') {
            diag_error(page->reader->diag, place_at(page, dollar - 2), "a directive stands alone on its line");
            return;
        }
        at = dollar + read_value(page, dollar);
    }
    add_text(page, at, (int)(end - at));
}

/* --- directives --- */

static void need_end(struct page *page, struct slice word, struct slice rest) {
    if (rest.size)
        diag_error(page->reader->diag, place_at(page, rest.text), "unexpected text after '%.*s'", word.size, word.text);
}

static void open_block(struct page *page, struct slice word) {
    if (page->nesting == TEMPLATE_NESTING) {
        diag_error(page->reader->diag, place_at(page, word.text), "more than %d blocks within each other",
                   TEMPLATE_NESTING);
        page->reader->failed = true; /* what follows could not be matched with its end */
        return;
    }
    page->block[page->nesting++] = page->file->ops - 1;
}

static void read_if(struct page *page, struct slice word, struct slice rest) {
    struct expr *condition = read_expr(page, rest, NULL, EXPR_BOOL, false);
    if (add_op(page, (struct template_op){.kind = OP_IF, .expr = {condition}}))
        open_block(page, word);
}

/* elif, else and end: continue or close the innermost block. */
static void read_link(struct page *page, enum op_kind kind, struct slice word, struct slice rest) {
    struct template_file *file = page->file;
    struct expr *condition = NULL;
    if (kind == OP_ELIF)
        condition = read_expr(page, rest, NULL, EXPR_BOOL, false);
    else
        need_end(page, word, rest);
    int before = page->nesting ? page->block[page->nesting - 1] : -1;
    enum op_kind opener = before >= 0 ? file->op[before].kind : OP_END;
    if (before < 0 || (kind != OP_END && opener != OP_IF && opener != OP_ELIF)) {
        diag_error(page->reader->diag, place_at(page, word.text),
                   before < 0          ? "'%.*s' without 'if'%s"
                   : opener == OP_ELSE ? "'%.*s' after the 'else'%s of this 'if'"
                                       : "'%.*s' belongs to an 'if'%s, and this block is a 'for'",
                   word.size, word.text, before < 0 && kind == OP_END ? " or 'for'" : "");
        expr_free(condition);
        return;
    }
    if (!add_op(page, (struct template_op){.kind = kind, .expr = {condition}}))
        return;
    file->op[before].next = file->ops - 1;
    if (kind != OP_END)
        page->block[page->nesting - 1] = file->ops - 1;
    else if (page->nesting--, opener == OP_FOR) {
        page->loops--;
        if (file->op[before].index >= 0)
            page->reader->template->slot[file->op[before].index].name = NULL;
    }
}
static void read_elif(struct page *page, struct slice word, struct slice rest) { read_link(page, OP_ELIF, word, rest); }
static void read_else(struct page *page, struct slice word, struct slice rest) { read_link(page, OP_ELSE, word, rest); }
static void read_end(struct page *page, struct slice word, struct slice rest) { read_link(page, OP_END, word, rest); }

/* The slot for a new name; -1 after an error. A `let` may name a slot again, in another branch, with the same type. */
static int add_slot(struct page *page, struct slice name, struct expr_type type, bool again) {
    struct template *t = page->reader->template;
    struct diag *diag = page->reader->diag;
    int shape = shape_find(name.text, (size_t)name.size);
    if (knob_find(name.text, (size_t)name.size) >= 0) {
        diag_error(diag, place_at(page, name.text), "'%.*s' is a knob; choose another name", name.size, name.text);
        return -1;
    }
    if (shape >= 0 && (shape_table[shape].families & t->families)) {
        diag_error(diag, place_at(page, name.text), "'%.*s' is a run-time size; choose another name", name.size,
                   name.text);
        return -1;
    }
    for (int i = 0; i < t->slots; i++)
        if (t->slot[i].name && equals(name, t->slot[i].name)) {
            if (again && t->slot[i].type.kind == type.kind && t->slot[i].type.words == type.words)
                return i;
            diag_error(diag, place_at(page, name.text), "'%.*s' is already a name of %s", name.size, name.text,
                       again ? "another type" : "something else");
            return -1;
        }
    if (t->slots == TEMPLATE_SLOTS || name.size >= TEMPLATE_NAME) {
        diag_error(diag, place_at(page, name.text),
                   t->slots == TEMPLATE_SLOTS ? "more than %d names in one template"
                                              : "a name has less than %d letters",
                   t->slots == TEMPLATE_SLOTS ? (int)TEMPLATE_SLOTS : (int)TEMPLATE_NAME);
        return -1;
    }
    for (int i = 0; i < name.size; i++) {
        char c = name.text[i];
        t->slot_name[t->slots][i] = c;
        t->slot_upper[t->slots][i] = c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
    }
    t->slot[t->slots] = (struct expr_name){t->slot_name[t->slots], type};
    return t->slots++;
}

/* NAME = EXPR; false after an error. */
static bool read_binding(struct page *page, struct slice word, struct slice rest, struct slice *name,
                         struct expr **value) {
    *name = take_name(&rest);
    if (!name->size || !rest.size || *rest.text != '=') {
        diag_error(page->reader->diag, place_at(page, name->size ? rest.text : name->text),
                   "expected '%.*s NAME = EXPR'", word.size, word.text);
        return false;
    }
    rest = trim((struct slice){rest.text + 1, rest.size - 1});
    struct template *t = page->reader->template;
    int knob = knob_find(name->text, (size_t)name->size);
    struct expr_scope scope = {t->slot, t->slots, 0, knob >= 0 ? knob_table[knob].words : NULL};
    *value =
        expr_parse(place_at(page, rest.text), rest.text, (size_t)rest.size, NULL, EXPR_ANY, &scope, page->reader->diag);
    if (*value)
        t->used |= expr_knobs(*value);
    return *value != NULL;
}

static void read_let(struct page *page, struct slice word, struct slice rest) {
    struct slice name;
    struct expr *value;
    if (!read_binding(page, word, rest, &name, &value))
        return;
    int slot = add_slot(page, name, expr_type(value), true);
    if (slot < 0)
        expr_free(value);
    else
        add_op(page, (struct template_op){.kind = OP_LET, .index = slot, .expr = {value}});
}

static const char *next_knob(void *context) {
    int *id = context;
    return *id < KNOB_COUNT ? knob_table[(*id)++].name : NULL;
}

static void read_default(struct page *page, struct slice word, struct slice rest) {
    struct diag *diag = page->reader->diag;
    struct slice name;
    struct expr *value = NULL;
    if (!read_binding(page, word, rest, &name, &value))
        return;
    int knob = knob_find(name.text, (size_t)name.size);
    struct expr_type type = expr_type(value);
    if (knob < 0) {
        const char *near = diag_nearest(name.text, (size_t)name.size, next_knob, &(int){0});
        diag_error(diag, place_at(page, name.text), near ? "no knob '%.*s'; did you mean '%s'?" : "no knob '%.*s'",
                   name.size, name.text, near);
    } else if (knob_table[knob].group != KNOB_GROUP_SCHEDULE || knob == KNOB_algorithm || knob == KNOB_loop_order) {
        diag_error(diag, place_at(page, name.text),
                   "only a schedule knob that does not choose the template has a default");
    } else if ((knob_table[knob].kind == KNOB_KIND_INT) != (type.kind == EXPR_INT) ||
               knob_table[knob].words != type.words) {
        diag_error(diag, expr_place(value), "this is not a value of knob %s", knob_table[knob].name);
    } else {
        page->reader->template->used |= 1u << knob;
        add_op(page, (struct template_op){.kind = OP_DEFAULT, .index = knob, .expr = {value}});
        return;
    }
    expr_free(value);
}

/* Every item must be a value of the knob by itself, so that the space of schedules is known before any knob is. */
static void check_tune(struct page *page, enum knob_id knob, const struct expr *list) {
    const struct knob_info *info = &knob_table[knob];
    for (int i = 0; i < expr_items(list); i++) {
        int value;
        if (template_tune_value(list, i, knob, &value))
            continue;
        if (info->words)
            diag_error(page->reader->diag, expr_place(list), "item %d of this list is no word of knob %s", i + 1,
                       info->name);
        else
            diag_error(page->reader->diag, expr_place(list), "item %d of this list is no integer from %d to %d", i + 1,
                       info->least, info->most);
    }
}

/* NAME in LIST */
static void read_tune(struct page *page, struct slice word, struct slice rest) {
    struct diag *diag = page->reader->diag;
    struct slice name = take_name(&rest), how = take_name(&rest);
    const struct expr_scope nothing = {0};
    int knob = knob_find(name.text, (size_t)name.size);
    if (knob < 0 || knob == KNOB_algorithm || knob == KNOB_loop_order ||
        (knob != KNOB_target && knob_table[knob].group != KNOB_GROUP_SCHEDULE)) {
        diag_error(diag, place_at(page, name.text), "expected a schedule knob or target here");
        return;
    }
    struct expr **list = &page->reader->template->tune[knob];
    if (page->nesting)
        diag_error(diag, place_at(page, word.text),
                   "'tune' cannot stand in an 'if': a 'require' rules out what is not possible");
    else if (*list)
        diag_error(diag, place_at(page, name.text), "the values of %s are listed already", knob_table[knob].name);
    else if (!equals(how, "in"))
        diag_error(diag, place_at(page, how.text), "expected 'tune NAME in LIST'");
    else {
        *list = expr_parse(place_at(page, rest.text), rest.text, (size_t)rest.size, NULL, EXPR_LIST, &nothing, diag);
        if (*list)
            check_tune(page, (enum knob_id)knob, *list);
    }
}

static void read_require(struct page *page, struct slice word, struct slice rest) {
    (void)word;
    struct expr *condition = read_expr(page, rest, NULL, EXPR_BOOL, false);
    if (condition)
        add_op(page, (struct template_op){.kind = OP_REQUIRE, .expr = {condition}});
}

static void read_launch(struct page *page, struct slice word, struct slice rest) {
    static const char *const part[] = {"grid", "block", "shared", "cluster"};
    enum { PARTS = sizeof part / sizeof *part, OPTIONAL = 3 };
    struct diag *diag = page->reader->diag;
    struct slice entry = take_name(&rest);
    struct template_op op = {.kind = OP_LAUNCH, .text = entry.text, .size = entry.size};
    bool good = entry.size && entry.size < PLAN_ENTRY;
    if (!good)
        diag_error(diag, place_at(page, entry.text),
                   entry.size ? "an entry's name has less than 64 letters"
                              : "expected '%.*s ENTRY grid EXPR block EXPR shared EXPR'",
                   word.size, word.text);
    for (int i = 0; i < PARTS && good && (i < OPTIONAL || trim(rest).size); i++) {
        size_t used = 0;
        rest = trim(rest);
        struct slice found = rest, keyword = take_name(&rest);
        good = equals(keyword, part[i]);
        if (!good)
            diag_error(diag, place_at(page, found.text),
                       "expected '%s'%s here: launch ENTRY grid EXPR block EXPR shared EXPR%s", part[i],
                       i < OPTIONAL ? "" : " or nothing", i < OPTIONAL ? "" : " [cluster EXPR]");
        else
            good = (op.expr[i] = read_expr(page, rest, i < PARTS - 1 ? &used : NULL, EXPR_INT, i == 0)) != NULL;
        rest.text += used;
        rest.size -= (int)used;
    }
    if (good)
        add_op(page, op);
    for (int i = 0; i < PARTS && !good; i++)
        expr_free(op.expr[i]);
}

static void read_workspace(struct page *page, struct slice word, struct slice rest) {
    (void)word;
    struct expr *bytes = read_expr(page, rest, NULL, EXPR_INT, true);
    if (bytes)
        add_op(page, (struct template_op){.kind = OP_WORKSPACE, .expr = {bytes}});
}

static void read_map(struct page *page, struct slice word, struct slice rest) {
    struct diag *diag = page->reader->diag;
    struct template_op op = {.kind = OP_MAP, .index = -1};
    struct slice tensor = take_name(&rest), rows = take_name(&rest);
    for (int i = 0; i < PLAN_TENSORS; i++)
        if (equals(tensor, plan_tensor_name[i]))
            op.index = i;
    size_t used = 0;
    if (op.index >= 0 && equals(rows, "rows") && !(op.expr[0] = read_expr(page, rest, &used, EXPR_INT, false)))
        return;
    rest.text += used;
    rest.size -= (int)used;
    struct slice cols = take_name(&rest);
    used = 0;
    if (op.expr[0] && equals(cols, "cols"))
        op.expr[1] = read_expr(page, rest, &used, EXPR_INT, false); /* which says itself what is wrong */
    else
        diag_error(diag,
                   place_at(page, op.index < 0 ? tensor.text
                                  : op.expr[0] ? cols.text
                                               : rows.text),
                   "expected '%.*s TENSOR rows EXPR cols EXPR' with TENSOR one of q, k, v, o", word.size, word.text);
    rest = trim((struct slice){rest.text + used, rest.size - (int)used});
    op.size = equals(rest, "packed");
    bool good = op.expr[1] && (!rest.size || op.size);
    if (op.expr[1] && !good)
        diag_error(diag, place_at(page, rest.text), "expected 'packed' or nothing here");
    if (good)
        add_op(page, op);
    for (int i = 0; i < 2 && !good; i++)
        expr_free(op.expr[i]);
}

/* NAME in LIST, or NAME below COUNT: 0, 1, ... COUNT - 1. */
static void read_for(struct page *page, struct slice word, struct slice rest) {
    struct slice name = take_name(&rest), how = take_name(&rest);
    struct expr *list = NULL, *count = NULL;
    if (name.size && equals(how, "in"))
        list = read_expr(page, rest, NULL, EXPR_LIST, false);
    else if (name.size && equals(how, "below"))
        count = read_expr(page, rest, NULL, EXPR_INT, false);
    else
        diag_error(page->reader->diag, place_at(page, name.size ? how.text : name.text),
                   "expected '%.*s NAME in LIST' or '%.*s NAME below COUNT'", word.size, word.text, word.size,
                   word.text);
    int slot = list || count ? add_slot(page, name, expr_type(list ? list : count), false) : -1;
    /* After an error the block still opens, so that its end is not reported as well; nothing is walked then. */
    if (add_op(page, (struct template_op){.kind = OP_FOR, .index = slot, .expr = {list, count}})) {
        open_block(page, word);
        page->loops++;
    }
}

static bool read_file(struct reader *reader, const char *name, size_t size, struct place from, int *index);

static void read_include(struct page *page, struct slice word, struct slice rest) {
    int index;
    if (rest.size < 3 || *rest.text != '"' || rest.text[rest.size - 1] != '"' ||
        memchr(rest.text + 1, '"', (size_t)rest.size - 2)) {
        diag_error(page->reader->diag, place_at(page, rest.text), "expected '%.*s \"part/name.cuh\"'", word.size,
                   word.text);
        return;
    }
    if (read_file(page->reader, rest.text + 1, (size_t)rest.size - 2, place_at(page, rest.text), &index))
        add_op(page, (struct template_op){.kind = OP_INCLUDE, .index = index});
}

/* WHAT NAME: something about the mask, as an integer. */
static void read_fact(struct page *page, struct slice word, struct slice rest, enum formula_fact fact) {
    struct slice name = take_name(&rest);
    if (!name.size || rest.size) {
        diag_error(page->reader->diag, place_at(page, name.size ? rest.text : name.text), "expected '%.*s NAME'",
                   word.size, word.text);
        return;
    }
    int slot = add_slot(page, name, (struct expr_type){EXPR_INT, NULL}, true);
    if (slot >= 0)
        add_op(page, (struct template_op){.kind = OP_FACT, .index = slot, .size = (int)fact});
}

static void read_tables(struct page *page, struct slice word, struct slice rest) {
    read_fact(page, word, rest, FACT_TABLES);
}
static void read_exact(struct page *page, struct slice word, struct slice rest) {
    read_fact(page, word, rest, FACT_EXACT);
}

static const char *next_code(void *context) {
    int *i = context;
    return *i < FORMULA_CODES ? formula_code_name((enum formula_code)(*i)++) : NULL;
}

static void read_code(struct page *page, struct slice word, struct slice rest) {
    for (int i = 0; i < FORMULA_CODES; i++)
        if (equals(rest, formula_code_name((enum formula_code)i))) {
            add_op(page, (struct template_op){.kind = OP_CODE, .index = i});
            return;
        }
    const char *near = diag_nearest(rest.text, (size_t)rest.size, next_code, &(int){0});
    diag_error(page->reader->diag, place_at(page, rest.text),
               near ? "no %.*s '%.*s' is printed; did you mean '%s'?" : "no %.*s '%.*s' is printed", word.size,
               word.text, rest.size, rest.text, near);
}

static const struct directive {
    const char *word;
    void (*read)(struct page *page, struct slice word, struct slice rest);
    bool in_loop; /* may stand in a `for`: what it says does not depend on how often it is said */
} directives[] = {
    {"require", read_require, false}, {"default", read_default, false},
    {"let", read_let, false},         {"tune", read_tune, false},
    {"launch", read_launch, false},   {"workspace", read_workspace, false},
    {"tensor_map", read_map, false},  {"if", read_if, true},
    {"elif", read_elif, true},        {"else", read_else, true},
    {"end", read_end, true},          {"for", read_for, true},
    {"include", read_include, false}, {"code", read_code, false},
    {"tables", read_tables, false},   {"exact", read_exact, false},
};
enum { DIRECTIVES = sizeof directives / sizeof *directives };

static const char *next_directive(void *context) {
    int *i = context;
    return *i < DIRECTIVES ? directives[(*i)++].word : NULL;
}

/* The line after its `//$ `. */
static void read_directive(struct page *page, struct slice rest) {
    struct slice word = take_name(&rest);
    for (int i = 0; i < DIRECTIVES; i++)
        if (equals(word, directives[i].word)) {
            if (page->loops && !directives[i].in_loop)
                diag_error(page->reader->diag, place_at(page, word.text), "'%s' cannot stand in a 'for'",
                           directives[i].word);
            else
                directives[i].read(page, word, rest);
            return;
        }
    const char *near = diag_nearest(word.text, (size_t)word.size, next_directive, &(int){0});
    diag_error(page->reader->diag, place_at(page, word.text),
               near ? "unknown directive '%.*s'; did you mean '%s'?" : "unknown directive '%.*s'", word.size, word.text,
               near);
}

/* `whole` is the length of the line with blanks at the end and newline. */
static void read_line(struct page *page, int whole) {
    struct slice s = trim((struct slice){page->line, page->size});
    page->size = (int)(s.text - page->line) + s.size;
    bool comment = s.size >= 2 && s.text[0] == '/' && s.text[1] == '/';
    struct slice after = comment ? trim((struct slice){s.text + 2, s.size - 2}) : s;
    if (!comment || !after.size || *after.text != '$') {
        read_text(page, whole);
    } else if (s.size < 5 || s.text[2] != '$' || s.text[3] != ' ' || !is_letter(s.text[4])) {
        diag_error(page->reader->diag, place_at(page, s.text),
                   "this looks like a directive and is none: a directive is '//$', one blank and a word");
    } else {
        read_directive(page, (struct slice){s.text + 4, s.size - 4});
    }
}

static void read_lines(struct page *page) {
    const char *at = page->file->input.text, *end = at + page->file->input.size;
    while (at < end && !page->reader->failed) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        page->number++;
        page->line = at;
        page->size = (int)((newline ? newline : end) - at);
        at = newline ? newline + 1 : end;
        read_line(page, (int)(at - page->line));
    }
    for (; page->nesting && !page->reader->failed; page->nesting--) {
        const struct template_op *opener = &page->file->op[page->block[page->nesting - 1]];
        diag_error(page->reader->diag, (struct place){&page->file->input, opener->line, 1}, "this '%s' has no 'end'",
                   opener->kind == OP_FOR    ? "for"
                   : opener->kind == OP_ELSE ? "else"
                   : opener->kind == OP_ELIF ? "elif"
                                             : "if");
    }
}

/* Read a file, or find it already read; `from` is where it was asked for. False after an error. */
static bool read_file(struct reader *reader, const char *name, size_t size, struct place from, int *index) {
    struct template *t = reader->template;
    for (*index = 0; *index < t->files; ++*index)
        if (strlen(t->file[*index].name) == size && memcmp(t->file[*index].name, name, size) == 0) {
            if (t->file[*index].open)
                diag_error(reader->diag, from, "this file includes itself");
            return !t->file[*index].open;
        }
    if (t->files == TEMPLATE_FILES || reader->depth == TEMPLATE_INCLUDES) {
        diag_error(reader->diag, from,
                   t->files == TEMPLATE_FILES ? "more than %d files in one template"
                                              : "more than %d includes within each other",
                   t->files == TEMPLATE_FILES ? (int)TEMPLATE_FILES : (int)TEMPLATE_INCLUDES);
        return false;
    }
    char *copy = strndup(name, size);
    if (!copy) {
        diag_error(reader->diag, from, "out of memory");
        reader->failed = true;
        return false;
    }
    size_t length = 0;
    const char *text = reader->load(reader->context, copy, &length);
    if (!text || length > TEMPLATE_SIZE || memchr(text, '\0', length)) {
        if (!text && !from.input)
            t->missing = true;
        else
            diag_error(reader->diag, from, "template '%s' %s", copy,
                       !text                    ? "does not exist"
                       : length > TEMPLATE_SIZE ? "is larger than 1 MiB"
                                                : "holds a NUL byte: it is not a text");
        free(copy);
        return false;
    }
    struct template_file *file = &t->file[t->files++];
    *file = (struct template_file){.name = copy, .input = {copy, text, length}, .open = true};
    struct page page = {.reader = reader, .file = file};
    int errors = reader->diag->errors;
    reader->depth++;
    read_lines(&page);
    reader->depth--;
    file->open = false;
    if (from.input && reader->diag->errors > errors)
        diag_note(reader->diag, from, "%s is included here", copy);
    template_capitals(text, length, mark_used, t);
    return !reader->failed;
}

void template_read(struct template *template, template_loader *load, void *context, struct diag *diag) {
    struct reader reader = {.template = template, .load = load, .context = context, .diag = diag};
    int index;
    read_file(&reader, template->name, strlen(template->name), (struct place){0}, &index);
}
