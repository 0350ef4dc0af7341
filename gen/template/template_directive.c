/* template_directive: a line that starts with //$ -> an op, or a fact about the template. One function per directive,
   and a table of them at the end. */
#include "formula_code.h"
#include "renamed.h"
#include "template_page.h"

#include <stdlib.h>
#include <string.h>

static void need_end(struct page *page, struct slice word, struct slice rest) {
    if (rest.size)
        diag_error(page->reader->diag, page_place(page, rest.text), "unexpected text after '%.*s'", word.size,
                   word.text);
}

static void open_block(struct page *page, struct slice word) {
    if (page->nesting == TEMPLATE_NESTING) {
        diag_error(page->reader->diag, page_place(page, word.text), "more than %d nested blocks", TEMPLATE_NESTING);
        page->reader->failed = true; /* the following blocks could not be matched with their ends */
        return;
    }
    page->block[page->nesting++] = page->file->ops - 1;
}

static void read_if(struct page *page, struct slice word, struct slice rest) {
    struct expr *condition = page_expr(page, rest, NULL, EXPR_BOOL, false);
    if (page_add(page, (struct template_op){.kind = OP_IF, .expr = {condition}}))
        open_block(page, word);
}

/* elif, else and end: continue or close the innermost block. */
static void read_link(struct page *page, enum op_kind kind, struct slice word, struct slice rest) {
    struct template_file *file = page->file;
    struct expr *condition = NULL;
    if (kind == OP_ELIF)
        condition = page_expr(page, rest, NULL, EXPR_BOOL, false);
    else
        need_end(page, word, rest);
    int before = page->nesting ? page->block[page->nesting - 1] : -1;
    enum op_kind opener = before >= 0 ? file->op[before].kind : OP_END;
    if (before < 0 || (kind != OP_END && opener != OP_IF && opener != OP_ELIF)) {
        diag_error(page->reader->diag, page_place(page, word.text),
                   before < 0          ? "'%.*s' without 'if'%s"
                   : opener == OP_ELSE ? "'%.*s' after the 'else'%s of this 'if'"
                                       : "'%.*s' belongs to an 'if'%s, and this block is a 'for'",
                   word.size, word.text, before < 0 && kind == OP_END ? " or 'for'" : "");
        expr_free(condition);
        return;
    }
    if (!page_add(page, (struct template_op){.kind = kind, .expr = {condition}}))
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

/* Reads NAME = EXPR, or EXPR alone for another value of the name; false after an error. */
static bool read_binding(struct page *page, struct slice word, struct slice rest, struct slice *name,
                         struct expr **value) {
    *name = page->bound.size ? page->bound : slice_name(&rest);
    if (!page->bound.size) {
        if (!name->size || !rest.size || *rest.text != '=') {
            diag_error(page->reader->diag, page_place(page, name->size ? rest.text : name->text),
                       "expected '%.*s NAME = EXPR'", word.size, word.text);
            return false;
        }
        rest = slice_trim((struct slice){rest.text + 1, rest.size - 1});
        page->bound = *name;
    }
    struct template *t = page->reader->template;
    int knob = knob_find(name->text, (size_t)name->size);
    if (knob < 0 && slice_is(word, "default"))
        knob = renamed_knob(name->text, (size_t)name->size, page_place(page, name->text), page->reader->diag);
    struct expr_scope scope = {t->slot, t->slots, 0, knob >= 0 ? knob_table[knob].words : NULL};
    *value = expr_parse(page_place(page, rest.text), rest.text, (size_t)rest.size, NULL, EXPR_ANY, &scope,
                        page->reader->diag);
    if (*value)
        page_reads(page, *value);
    return *value != NULL;
}

static void read_let(struct page *page, struct slice word, struct slice rest) {
    struct slice name;
    struct expr *value;
    if (!read_binding(page, word, rest, &name, &value))
        return;
    int slot = page_slot(page, name, expr_type(value), true);
    if (slot < 0)
        expr_free(value);
    else
        page_add(page, (struct template_op){.kind = OP_LET, .index = slot, .expr = {value}});
    if (slot >= 0)
        page->file->slot[slot] |= NAME_SET;
}

static const char *next_knob(void *context) {
    int *id = context;
    return *id < KNOB_COUNT ? knob_table[(*id)++].name : NULL;
}

/* A knob gets its default from only one place, so no precedence rule is needed. */
static void check_defaults(struct page *page, struct place place) {
    const struct template *t = page->reader->template;
    for (int id = 0; t->defaults && id < KNOB_COUNT; id++)
        if (knob_in(t->defaults->given & t->defaulted, id))
            diag_error(page->reader->diag, place, "%s has a default from 'default' and from %s; leave one out",
                       knob_table[id].name, t->defaults->name);
}

static void read_default(struct page *page, struct slice word, struct slice rest) {
    struct diag *diag = page->reader->diag;
    struct slice name;
    struct expr *value = NULL;
    if (!read_binding(page, word, rest, &name, &value))
        return;
    int knob = knob_find(name.text, (size_t)name.size);
    struct expr_type type = expr_type(value);
    if (knob < 0 && renamed_find(name.text, (size_t)name.size) >= 0) {
        expr_free(value);
        return;
    }
    if (knob < 0) {
        const char *near = diag_nearest(name.text, (size_t)name.size, next_knob, &(int){0});
        diag_error(diag, page_place(page, name.text), near ? "no knob '%.*s'; did you mean '%s'?" : "no knob '%.*s'",
                   name.size, name.text, near);
    } else if (knob_table[knob].group != KNOB_GROUP_SCHEDULE || knob == KNOB_algorithm || knob == KNOB_loop_order) {
        diag_error(diag, page_place(page, name.text),
                   "only a schedule knob that does not choose the template has a default");
    } else if ((knob_table[knob].kind == KNOB_KIND_INT) != (type.kind == EXPR_INT) ||
               knob_table[knob].words != type.words) {
        diag_error(diag, expr_place(value), "this is not a value of knob %s", knob_table[knob].name);
    } else {
        page->reader->template->used |= KNOB_FLAG(knob);
        page->reader->template->defaulted |= KNOB_FLAG(knob);
        check_defaults(page, page_place(page, name.text));
        page_add(page, (struct template_op){.kind = OP_DEFAULT, .index = knob, .expr = {value}});
        return;
    }
    expr_free(value);
}

/* Every item must be a value of the knob by itself, so that the space of schedules does not depend on other knobs. */
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
    struct slice name = slice_name(&rest), how = slice_name(&rest);
    const struct expr_scope nothing = {0};
    int knob = knob_find(name.text, (size_t)name.size);
    if (knob < 0 && renamed_knob(name.text, (size_t)name.size, page_place(page, name.text), diag) >= 0)
        return;
    if (knob < 0 || knob == KNOB_algorithm || knob == KNOB_loop_order ||
        (knob != KNOB_target && knob_table[knob].group != KNOB_GROUP_SCHEDULE)) {
        diag_error(diag, page_place(page, name.text), "expected a schedule knob or target here");
        return;
    }
    struct expr **list = &page->reader->template->tune[knob];
    if (page->nesting)
        diag_error(diag, page_place(page, word.text),
                   "'tune' cannot be in an 'if': a 'require' rules out what is not possible");
    else if (*list)
        diag_error(diag, page_place(page, name.text), "the values of %s are listed already", knob_table[knob].name);
    else if (!slice_is(how, "in"))
        diag_error(diag, page_place(page, how.text), "expected 'tune NAME in LIST'");
    else {
        *list = expr_parse(page_place(page, rest.text), rest.text, (size_t)rest.size, NULL, EXPR_LIST, &nothing, diag);
        if (*list)
            check_tune(page, (enum knob_id)knob, *list);
    }
}

static void read_require(struct page *page, struct slice word, struct slice rest) {
    (void)word;
    struct expr *condition = page_expr(page, rest, NULL, EXPR_BOOL, false);
    if (condition)
        page_add(page, (struct template_op){.kind = OP_REQUIRE, .expr = {condition}});
}

static const char launch_usage[] =
    "launch ENTRY grid EXPR block EXPR shared EXPR [cluster EXPR] [dependent] [params STRUCT] [fills tables]";
static const char map_usage[] = "tensor_map [NAME of] TENSOR rows EXPR cols EXPR [packed]";

/* Takes KEYWORD EXPR off the front. False after an error. */
static bool read_part(struct page *page, struct slice *rest, const char *keyword, const char *usage, bool sizes,
                      struct expr **value) {
    size_t used = 0;
    *rest = slice_trim(*rest);
    struct slice found = *rest;
    if (!slice_is(slice_name(rest), keyword)) {
        diag_error(page->reader->diag, page_place(page, found.text), "expected '%s' here: %s", keyword, usage);
        return false;
    }
    *value = page_expr(page, *rest, &used, EXPR_INT, sizes); /* reports its own errors */
    rest->text += used;
    rest->size -= (int)used;
    return *value != NULL;
}

/* True if the rest begins with this word. */
static bool begins_with(struct slice rest, const char *word) {
    rest = slice_trim(rest);
    return slice_is(slice_name(&rest), word);
}

/* Returns the parameter struct of this name for the template's family; PLAN_PARAMS_USUAL after an error. */
static enum plan_params find_params(struct page *page, struct slice name) {
    struct text choices = {0};
    for (int i = PLAN_PARAMS_USUAL + 1; i < PLAN_PARAMS; i++) {
        if (!(plan_params_table[i].families & page->reader->template->families))
            continue;
        if (slice_is(name, plan_params_table[i].name)) {
            text_free(&choices);
            return (enum plan_params)i;
        }
        text_print(&choices, "%s%s", choices.size ? " or " : "", plan_params_table[i].name);
    }
    diag_error(page->reader->diag, page_place(page, name.text), "expected a parameter struct here: %s",
               text_string(&choices));
    text_free(&choices);
    return PLAN_PARAMS_USUAL;
}

/* Reads [dependent] [params STRUCT] [fills tables], after the numbers of a launch. */
static bool read_launch_rest(struct page *page, struct slice rest, struct template_op *op) {
    op->dependent = begins_with(rest, "dependent");
    if (op->dependent)
        slice_name(&rest);
    if (begins_with(rest, "params")) {
        slice_name(&rest);
        op->index = find_params(page, slice_name(&rest));
        if (op->index == PLAN_PARAMS_USUAL)
            return false;
    }
    rest = slice_trim(rest);
    struct slice found = rest, word = slice_name(&rest);
    op->flag = slice_is(word, "fills") && slice_is(slice_trim(rest), "tables");
    if (op->flag || !found.size)
        return true;
    diag_error(page->reader->diag, page_place(page, found.text),
               "expected 'cluster', 'dependent', 'params', 'fills tables' or nothing here: %s", launch_usage);
    return false;
}

static void read_launch(struct page *page, struct slice word, struct slice rest) {
    static const char *const part[] = {"grid", "block", "shared", "cluster"};
    enum { PARTS = sizeof part / sizeof *part, OPTIONAL = 3 };
    struct slice entry = slice_name(&rest);
    struct template_op op = {.kind = OP_LAUNCH, .text = entry.text, .size = entry.size};
    bool good = entry.size && entry.size < PLAN_ENTRY;
    if (!good)
        diag_error(page->reader->diag, page_place(page, entry.text),
                   entry.size ? "an entry's name has less than 64 letters" : "expected %s", launch_usage);
    (void)word;
    for (int i = 0; i < PARTS && good && (i < OPTIONAL || begins_with(rest, part[i])); i++)
        good = read_part(page, &rest, part[i], launch_usage, i == 0, &op.expr[i]);
    good = good && read_launch_rest(page, rest, &op);
    if (good)
        page_add(page, op);
    for (int i = 0; i < PARTS && !good; i++)
        expr_free(op.expr[i]);
}

static void read_workspace(struct page *page, struct slice word, struct slice rest) {
    (void)word;
    struct expr *bytes = page_expr(page, rest, NULL, EXPR_INT, true);
    if (bytes)
        page_add(page, (struct template_op){.kind = OP_WORKSPACE, .expr = {bytes}});
}

static void read_splits(struct page *page, struct slice word, struct slice rest) {
    static const char usage[] = "splits most EXPR [tiles EXPR on EXPR keys EXPR seen EXPR]";
    struct template_op op = {.kind = OP_SPLITS};
    bool good = true;
    (void)word;
    for (int i = 0; i < PLAN_SPLIT_EXPRS && good && (i < PLAN_SPLIT_ON || op.expr[PLAN_SPLIT_TILES]); i++)
        if (i != PLAN_SPLIT_TILES || slice_trim(rest).size)
            good = read_part(page, &rest, plan_split_name[i], usage, true, &op.expr[i]);
    rest = slice_trim(rest);
    if (good && rest.size) {
        diag_error(page->reader->diag, page_place(page, rest.text), "expected nothing more here: %s", usage);
        good = false;
    }
    if (good)
        page_add(page, op);
    for (int i = 0; i < PLAN_SPLIT_EXPRS && !good; i++)
        expr_free(op.expr[i]);
}

/* True if the template's family reads gradients. */
static bool is_backward(const struct page *page) {
    return page->reader->template->families >> family_attention_backward & 1;
}

/* Returns the tensor of this name; -1 if the family has none. */
static int find_tensor(const struct page *page, struct slice name) {
    for (int i = 0; i < (is_backward(page) ? PLAN_TENSORS : PLAN_FORWARD_TENSORS); i++)
        if (slice_is(name, plan_tensor_name[i]))
            return i;
    return -1;
}

/* Reads NAME of TENSOR, or TENSOR alone, which then also names the map. */
static bool read_map_name(struct page *page, struct slice *rest, struct template_op *op) {
    struct slice name = slice_name(rest), tensor = name, after = *rest;
    op->text = name.text;
    op->size = name.size;
    if (begins_with(after, "of")) {
        slice_name(&after);
        tensor = slice_name(&after);
        *rest = after;
    }
    op->index = find_tensor(page, tensor);
    if (op->index >= 0 && name.size < PLAN_MAP_NAME)
        return true;
    if (op->index < 0)
        diag_error(page->reader->diag, page_place(page, tensor.text), "expected %s with TENSOR one of q, k, v, o%s",
                   map_usage, is_backward(page) ? ", d_o" : "");
    else
        diag_error(page->reader->diag, page_place(page, name.text), "the name of a tensor map has at most %d letters",
                   PLAN_MAP_NAME - 1);
    return false;
}

static void read_map(struct page *page, struct slice word, struct slice rest) {
    static const char *const part[] = {"rows", "cols"};
    enum { PARTS = sizeof part / sizeof *part };
    struct template_op op = {.kind = OP_MAP};
    bool good = read_map_name(page, &rest, &op);
    (void)word;
    for (int i = 0; i < PARTS && good; i++)
        good = read_part(page, &rest, part[i], map_usage, false, &op.expr[i]);
    rest = slice_trim(rest);
    op.flag = slice_is(rest, "packed");
    if (good && rest.size && !op.flag) {
        diag_error(page->reader->diag, page_place(page, rest.text), "expected 'packed' or nothing here");
        good = false;
    }
    if (good)
        page_add(page, op);
    for (int i = 0; i < PARTS && !good; i++)
        expr_free(op.expr[i]);
}

static void read_maps(struct page *page, struct slice word, struct slice rest) {
    need_end(page, word, rest);
    page_add(page, (struct template_op){.kind = OP_MAPS});
}

/* NAME in LIST, or NAME below COUNT: 0, 1, ... COUNT - 1. */
static void read_for(struct page *page, struct slice word, struct slice rest) {
    struct slice name = slice_name(&rest), how = slice_name(&rest);
    struct expr *list = NULL, *count = NULL;
    if (name.size && slice_is(how, "in"))
        list = page_expr(page, rest, NULL, EXPR_LIST, false);
    else if (name.size && slice_is(how, "below"))
        count = page_expr(page, rest, NULL, EXPR_INT, false);
    else
        diag_error(page->reader->diag, page_place(page, name.size ? how.text : name.text),
                   "expected '%.*s NAME in LIST' or '%.*s NAME below COUNT'", word.size, word.text, word.size,
                   word.text);
    int slot = list || count ? page_slot(page, name, expr_type(list ? list : count), false) : -1;
    if (slot >= 0)
        page->file->slot[slot] |= NAME_SET;
    /* After an error the block still opens, so that its end is not reported as well; the template is then never
       walked. */
    if (page_add(page, (struct template_op){.kind = OP_FOR, .index = slot, .expr = {list, count}})) {
        open_block(page, word);
        page->loops++;
    }
}

/* Reads "NAME", in quotes, which must be the whole rest. Empty after an error. */
static struct slice read_file_name(struct page *page, struct slice word, struct slice rest, const char *example) {
    if (rest.size >= 3 && *rest.text == '"' && rest.text[rest.size - 1] == '"' &&
        !memchr(rest.text + 1, '"', (size_t)rest.size - 2))
        return (struct slice){rest.text + 1, rest.size - 2};
    diag_error(page->reader->diag, page_place(page, rest.text), "expected '%.*s \"%s\"'", word.size, word.text,
               example);
    return (struct slice){0};
}

static void read_include(struct page *page, struct slice word, struct slice rest) {
    int index;
    struct slice name = read_file_name(page, word, rest, "room/name.cuh");
    if (name.size && memchr(name.text, '$', (size_t)name.size))
        page_include_words(page, name);
    else if (name.size && page_include(page->reader, name.text, (size_t)name.size, page_place(page, rest.text), &index))
        page_add(page, (struct template_op){.kind = OP_INCLUDE, .index = index});
}

/* Reads the table of defaults, once. */
static void read_defaults(struct page *page, struct slice word, struct slice rest) {
    struct template *t = page->reader->template;
    struct diag *diag = page->reader->diag;
    struct place place = page_place(page, rest.text);
    const struct expr_scope facts = {t->slot, FACT_COUNT, 0, NULL};
    struct slice name = read_file_name(page, word, rest, "name.yaml");
    int errors = diag->errors;
    size_t size = 0;
    char *copy = name.size ? strndup(name.text, (size_t)name.size) : NULL;
    if (t->defaults)
        diag_error(diag, place, "this template has its defaults from %s already", t->defaults->name);
    else if (name.size && !copy)
        diag_error(diag, place, "out of memory");
    const char *text = copy && diag->errors == errors ? page_load(page->reader, copy, place, &size) : NULL;
    if (text && (t->defaults = defaults_read(copy, text, size, &facts, diag))) {
        t->used |= t->defaults->given | t->defaults->asked;
        check_defaults(page, place);
        page_add(page, (struct template_op){.kind = OP_DEFAULTS});
    } else if (text)
        diag_note(diag, place, "%s is read here", copy);
    free(copy);
}

static const char *next_code(void *context) {
    int *i = context;
    return *i < FORMULA_CODES ? formula_code_name((enum formula_code)(*i)++) : NULL;
}

static void read_code(struct page *page, struct slice word, struct slice rest) {
    for (int i = 0; i < FORMULA_CODES; i++)
        if (slice_is(rest, formula_code_name((enum formula_code)i))) {
            page_add(page, (struct template_op){.kind = OP_CODE, .index = i});
            return;
        }
    const char *near = diag_nearest(rest.text, (size_t)rest.size, next_code, &(int){0});
    diag_error(page->reader->diag, page_place(page, rest.text),
               near ? "no %.*s '%.*s' is printed; did you mean '%s'?" : "no %.*s '%.*s' is printed", word.size,
               word.text, rest.size, rest.text, near);
}

/* Reads NAME NAME ...: the names that a part reads and that are set before its include. */
static void read_needs(struct page *page, struct slice word, struct slice rest) {
    struct template *t = page->reader->template;
    page->file->needs_line = page->number;
    if (!rest.size)
        diag_error(page->reader->diag, page_place(page, word.text), "expected 'needs NAME NAME ...'");
    while (rest.size) {
        struct slice name = slice_name(&rest);
        int knob = knob_find(name.text, (size_t)name.size), slot = 0;
        while (slot < t->slots && !(t->slot[slot].name && slice_is(name, t->slot[slot].name)))
            slot++;
        if (knob >= 0) {
            page->file->needs |= KNOB_FLAG(knob);
        } else if (slot < t->slots) {
            page->file->slot[slot] |= NAME_NEEDED;
        } else if (renamed_knob(name.text, (size_t)name.size, page_place(page, name.text), page->reader->diag) < 0) {
            diag_error(page->reader->diag, page_place(page, name.size ? name.text : rest.text),
                       "expected a knob, a fact or a 'let' that is set above the include of this file");
            return;
        }
    }
}

/* A note is only for readers of the template. */
static void read_note(struct page *page, struct slice word, struct slice rest) {
    if (!rest.size)
        diag_error(page->reader->diag, page_place(page, word.text), "expected words after '%.*s'", word.size,
                   word.text);
}

static const struct directive {
    const char *word;
    page_read *read;
    bool in_loop; /* may be in a `for`: repeating it changes nothing */
    bool choice;  /* may have conditions after it */
} directives[] = {
    {"require", read_require, false, true},
    {"default", read_default, false, true},
    {"defaults", read_defaults, false, false},
    {"let", read_let, false, true},
    {"tune", read_tune, false, false},
    {"launch", read_launch, false, true},
    {"workspace", read_workspace, false, true},
    {"splits", read_splits, false, true},
    {"tensor_map", read_map, false, true},
    {"if", read_if, true, false},
    {"elif", read_elif, true, false},
    {"else", read_else, true, false},
    {"end", read_end, true, false},
    {"for", read_for, true, false},
    {"include", read_include, false, true},
    {"code", read_code, false, false},
    {"note", read_note, true, false},
    {"tensor_maps", read_maps, false, false},
    {"needs", read_needs, false, false},
};
enum { DIRECTIVES = sizeof directives / sizeof *directives };

static const char *next_directive(void *context) {
    int *i = context;
    return *i < DIRECTIVES ? directives[(*i)++].word : NULL;
}

void page_directive(struct page *page, struct slice rest) {
    struct slice word = slice_name(&rest);
    for (int i = 0; i < DIRECTIVES; i++)
        if (slice_is(word, directives[i].word)) {
            if (page->loops && !directives[i].in_loop)
                diag_error(page->reader->diag, page_place(page, word.text), "'%s' cannot be in a 'for'",
                           directives[i].word);
            else if (directives[i].choice)
                page_choice(page, word, rest, directives[i].read);
            else
                directives[i].read(page, word, rest);
            return;
        }
    const char *near = diag_nearest(word.text, (size_t)word.size, next_directive, &(int){0});
    diag_error(page->reader->diag, page_place(page, word.text),
               near ? "unknown directive '%.*s'; did you mean '%s'?" : "unknown directive '%.*s'", word.size, word.text,
               near);
}
