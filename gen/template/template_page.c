/* template_page: the pieces of a line, and the ops, expressions and names that a page adds to the template. */
#include "template_page.h"

#include <stdlib.h>
#include <string.h>

struct place page_place(const struct page *page, const char *at) {
    return (struct place){&page->file->input, page->number, (int)(at - page->line) + 1};
}

struct slice slice_trim(struct slice s) {
    while (s.size && text_is_blank(*s.text))
        s.text++, s.size--;
    while (s.size && text_is_blank(s.text[s.size - 1]))
        s.size--;
    return s;
}

struct slice slice_name(struct slice *rest) {
    *rest = slice_trim(*rest);
    struct slice name = {rest->text, 0};
    while (name.size < rest->size && (name.size ? text_is_name(name.text[name.size]) : text_is_letter(name.text[0])))
        name.size++;
    rest->text += name.size;
    rest->size -= name.size;
    *rest = slice_trim(*rest);
    return name;
}

bool slice_is(struct slice s, const char *word) { return text_equals(s.text, (size_t)s.size, word); }

struct template_op *page_add(struct page *page, struct template_op op) {
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

struct expr *page_expr(struct page *page, struct slice s, size_t *used, unsigned wanted, bool sizes) {
    struct template *t = page->reader->template;
    struct expr_scope scope = {t->slot, t->slots, sizes ? t->families : 0, NULL};
    struct expr *expr =
        expr_parse(page_place(page, s.text), s.text, (size_t)s.size, used, wanted, &scope, page->reader->diag);
    if (expr)
        page_reads(page, expr);
    return expr;
}

void page_reads(struct page *page, const struct expr *expr) {
    struct template *t = page->reader->template;
    t->used |= expr_knobs(expr);
    page->file->reads |= expr_knobs(expr);
    expr_mark_names(expr, page->file->slot, NAME_READ);
}

int page_slot(struct page *page, struct slice name, struct expr_type type, bool again) {
    struct template *t = page->reader->template;
    struct diag *diag = page->reader->diag;
    int shape = shape_find(name.text, (size_t)name.size);
    if (knob_find(name.text, (size_t)name.size) >= 0) {
        diag_error(diag, page_place(page, name.text), "'%.*s' is a knob; choose another name", name.size, name.text);
        return -1;
    }
    if (shape >= 0 && (shape_table[shape].families & t->families)) {
        diag_error(diag, page_place(page, name.text), "'%.*s' is a run-time size; choose another name", name.size,
                   name.text);
        return -1;
    }
    for (int i = 0; i < t->slots; i++)
        if (t->slot[i].name && slice_is(name, t->slot[i].name)) {
            if (i < FACT_COUNT) {
                diag_error(diag, page_place(page, name.text),
                           "'%.*s' is a fact that every template has; choose another name", name.size, name.text);
                return -1;
            }
            if (again && t->slot[i].type.kind == type.kind && t->slot[i].type.words == type.words)
                return i;
            diag_error(diag, page_place(page, name.text), "'%.*s' is already a name of %s", name.size, name.text,
                       again ? "another type" : "something else");
            return -1;
        }
    if (t->slots == TEMPLATE_SLOTS || name.size >= TEMPLATE_NAME) {
        diag_error(diag, page_place(page, name.text),
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
