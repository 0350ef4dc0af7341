/* template_choice: `VALUE if COND else VALUE ...` after the word of a directive, and a word in the name of a part. Both
   become the ops of an `if` block, so the walk and the header of a source need not know about them. */
#include "template_page.h"

#include <string.h>

void page_branch(struct page *page, int *last, struct expr *condition) {
    struct template_file *file = page->file;
    enum op_kind kind = *last < 0 ? OP_IF : condition ? OP_ELIF : OP_ELSE;
    if (!page_add(page, (struct template_op){.kind = kind, .expr = {condition}}))
        return;
    if (*last >= 0)
        file->op[*last].next = file->ops - 1;
    *last = file->ops - 1;
}

void page_branch_end(struct page *page, int last) {
    if (last >= 0 && page_add(page, (struct template_op){.kind = OP_END, .next = last}))
        page->file->op[last].next = page->file->ops - 1;
}

/* --- VALUE if COND else VALUE --- */

/* True if this word begins at `i`. */
static bool word_at(struct slice s, int i, const char *word) {
    int end = i + (int)strlen(word);
    return (i == 0 || !text_is_name(s.text[i - 1])) && end <= s.size && (end == s.size || !text_is_name(s.text[end])) &&
           memcmp(s.text + i, word, (size_t)(end - i)) == 0;
}

/* Returns the text before the first `word` outside of quotes; `rest` becomes the text after it. */
static struct slice cut_at(struct slice *rest, const char *word, bool *found) {
    struct slice s = *rest;
    bool quoted = false;
    int i = 0;
    for (; i < s.size && (quoted || !word_at(s, i, word)); i++)
        quoted ^= s.text[i] == '"';
    *found = i < s.size;
    int behind = *found ? i + (int)strlen(word) : i;
    while (behind < s.size && text_is_blank(s.text[behind]))
        behind++;
    *rest = (struct slice){s.text + behind, s.size - behind};
    return slice_trim((struct slice){s.text, i});
}

void page_choice(struct page *page, struct slice word, struct slice rest, page_read *read) {
    int last = -1, errors = page->reader->diag->errors;
    bool conditional = true, more = true;
    for (page->bound = (struct slice){0}; more; more &= page->reader->diag->errors == errors) {
        struct slice value = cut_at(&rest, "if", &conditional);
        struct expr *condition = NULL;
        more = false;
        if (conditional && !(condition = page_expr(page, cut_at(&rest, "else", &more), NULL, EXPR_BOOL, false)))
            return;
        if (conditional || last >= 0)
            page_branch(page, &last, condition);
        page->condition = condition;
        read(page, word, value);
        page->condition = NULL;
    }
    page_branch_end(page, last);
}

/* --- parts named by a word --- */

/* False if the condition of this line cannot hold when `name` is its word number `word`, judged from that alone. */
static bool may_hold(const struct expr *condition, const struct expr *name, int word) {
    struct knobs knobs = knobs_filled(AUTO);
    struct expr_slot slots[TEMPLATE_SLOTS] = {0};
    struct expr_fault unknown;
    int64_t holds;
    for (int id = 0; id < KNOB_COUNT; id++)
        if (knob_in(expr_knobs(name), id))
            knob_set(&knobs, (enum knob_id)id, word);
    for (int i = 0; i < TEMPLATE_SLOTS; i++)
        slots[i] = (struct expr_slot){word, expr_names(name, i)};
    return !condition || !expr_eval(condition, &(struct expr_env){&knobs, slots}, &holds, &unknown) || holds;
}

/* Makes the expression `name == word`. */
static struct expr *is_word(struct page *page, const struct expr *name, const char *word) {
    const struct template *t = page->reader->template;
    struct expr_scope scope = {t->slot, t->slots, 0, NULL};
    struct text text = {0};
    text_print(&text, "%s == %s", expr_text(name), word);
    struct expr *expr =
        expr_parse(expr_place(name), text_string(&text), text.size, NULL, EXPR_BOOL, &scope, page->reader->diag);
    page->reader->failed |= text.failed;
    text_free(&text);
    return expr;
}

/* Includes the part for one word. */
static void include_word(struct page *page, int *last, const struct expr *name, const char *word, const char *file) {
    int index;
    struct expr *condition = is_word(page, name, word);
    if (condition && page_include(page->reader, file, strlen(file), expr_place(name), &index)) {
        page_branch(page, last, condition);
        page_add(page, (struct template_op){.kind = OP_INCLUDE, .index = index});
        return;
    }
    diag_note(page->reader->diag, expr_place(name), "%s may be '%s' here", expr_text(name), word);
    expr_free(condition);
}

void page_include_words(struct page *page, struct slice file) {
    const char *dollar = memchr(file.text, '$', (size_t)file.size), *end = file.text + file.size;
    struct slice inner = {dollar + 1, 0};
    int last = -1, errors = page->reader->diag->errors;
    while (inner.text + inner.size < end && text_is_name(inner.text[inner.size]))
        inner.size++;
    const char *after = inner.text + inner.size;
    if (!inner.size || memchr(after, '$', (size_t)(end - after))) {
        diag_error(page->reader->diag, page_place(page, inner.size ? after : dollar),
                   inner.size ? "the name of a part has one word of a variant"
                              : "expected '$NAME', of a knob, a fact or a let whose value is a word");
        return;
    }
    struct expr *name = page_expr(page, inner, NULL, EXPR_WORD, false);
    for (int i = 0; name && expr_type(name).words[i]; i++) {
        struct text path = {0};
        if (!may_hold(page->condition, name, i))
            continue;
        text_print(&path, "%.*s%s%.*s", (int)(dollar - file.text), file.text, expr_type(name).words[i],
                   (int)(end - after), after);
        include_word(page, &last, name, expr_type(name).words[i], text_string(&path));
        text_free(&path);
    }
    if (last < 0 && page->reader->diag->errors == errors)
        diag_error(page->reader->diag, expr_place(page->condition), "this holds for no word of %s", expr_text(name));
    page_branch_end(page, last);
    expr_free(name);
}
