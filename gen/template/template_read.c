/* template_read: the text of a template and its parts -> ops. Every line is read once, here. A comment that looks like a
   directive but is not one is an error, so that a typo cannot turn into a harmless comment. Reading continues after an
   error, so that one pass finds all errors; the result is then discarded. */
#include "template_page.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* --- text and values --- */

static void add_text(struct page *page, const char *text, int size) {
    struct template_file *file = page->file;
    struct template_op *last = file->ops ? &file->op[file->ops - 1] : NULL;
    if (!size)
        return;
    if (last && last->kind == OP_TEXT && last->text + last->size == text) /* one op for a run of lines */
        last->size += size;
    else
        page_add(page, (struct template_op){.kind = OP_TEXT, .text = text, .size = size});
}

/* Reads `$name`, `${expr}` or `$$` at `at`; returns its length. */
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
            diag_error(page->reader->diag, page_place(page, at), "'${' has no '}' on this line");
            return (int)(end - at);
        }
        inner = (struct slice){at + 2, (int)(close - at) - 2};
        size = inner.size + 3;
    } else {
        struct slice rest = inner;
        inner = !inner.size || text_is_blank(*inner.text) ? (struct slice){inner.text, 0} : slice_name(&rest);
        size = inner.size + 1;
    }
    if (!inner.size) {
        diag_error(page->reader->diag, page_place(page, at),
                   "'$' begins a value: write $name, ${EXPR}, or $$ for a dollar");
        return size;
    }
    struct expr *expr = page_expr(page, inner, NULL, EXPR_ANY, false);
    if (expr)
        page_add(page, (struct template_op){.kind = OP_VALUE, .expr = {expr}});
    return size;
}

/* Reads text of the current line. */
static void read_text(struct page *page, const char *at, const char *end) {
    for (const char *dollar; (dollar = memchr(at, '$', (size_t)(end - at)));) {
        add_text(page, at, (int)(dollar - at));
        at = dollar + read_value(page, dollar);
    }
    add_text(page, at, (int)(end - at));
}

/* Reads `if COND`, `elif COND` or `else` after text. elif and else continue the block of the previous line, whose end
   is the latest op. */
static bool read_behind(struct page *page, struct slice rest, int *block) {
    struct slice word = slice_name(&rest);
    struct template_file *file = page->file;
    struct expr *condition = NULL;
    bool first = slice_is(word, "if"), last = slice_is(word, "else");
    if (!first && (!page->behind || page->behind != page->number - 1)) {
        diag_error(page->reader->diag, page_place(page, word.text), "'%.*s' without 'if' behind the line above",
                   word.size, word.text);
        return false;
    }
    if (last && rest.size) {
        diag_error(page->reader->diag, page_place(page, rest.text), "unexpected text after 'else'");
        return false;
    }
    if (!last && !(condition = page_expr(page, rest, NULL, EXPR_BOOL, false)))
        return false;
    if (!first)
        *block = file->op[--file->ops].next;
    page_branch(page, block, condition);
    page->behind = last ? 0 : page->number;
    return true;
}

/* Reads a line of text, including its newline, possibly with a condition after it; `whole` is its length with trailing
   blanks and newline. */
static void read_text_line(struct page *page, int whole) {
    const char *end = page->line + page->size, *newline = page->line + whole - (page->line[whole - 1] == '\n');
    const char *behind = memmem(page->line, (size_t)page->size, "//$", 3);
    if (!behind) {
        read_text(page, page->line, page->line + whole);
        return;
    }
    struct slice rest = {behind + 4, (int)(end - behind) - 4}, after = rest;
    struct slice word =
        rest.size >= 2 && behind[3] == ' ' && text_is_letter(behind[4]) ? slice_name(&after) : (struct slice){0};
    int block = -1;
    if (!slice_is(word, "if") && !slice_is(word, "elif") && !slice_is(word, "else")) {
        diag_error(
            page->reader->diag, page_place(page, behind),
            "a directive stands alone on its line; behind text may be '//$ if COND', '//$ elif COND' or '//$ else'");
        return;
    }
    if (!read_behind(page, rest, &block))
        return;
    page->size = (int)(behind - page->line);
    read_text(page, page->line, behind);
    add_text(page, newline, (int)(page->line + whole - newline));
    page_branch_end(page, block);
}

/* --- names --- */

/* Notes a name in capitals, which is a constant. */
static void read_constant(void *context, const char *name, size_t size, bool capitals) {
    struct page *page = context;
    struct template *t = page->reader->template;
    int knob = capitals ? template_constant(name, size) : -1;
    if (knob >= 0) {
        t->used |= KNOB_FLAG(knob);
        page->file->reads |= KNOB_FLAG(knob);
    }
    for (int i = FACT_COUNT; capitals && i < t->slots; i++)
        if (text_equals(name, size, t->slot_upper[i]))
            page->file->slot[i] |= NAME_READ;
}

/* The search for a name in a file, in lower case or in capitals. */
struct sought {
    const char *name;
    const char *at;
};
static void seek_name(void *context, const char *name, size_t size, bool capitals) {
    struct sought *sought = context;
    size_t i = 0;
    (void)capitals;
    while (i < size && sought->name[i] && tolower((unsigned char)name[i]) == sought->name[i])
        i++;
    if (!sought->at && i == size && !sought->name[i])
        sought->at = name;
}
static struct place place_of(const struct template_file *file, const char *name) {
    struct sought sought = {name, NULL};
    struct place place = {&file->input, 1, 1};
    for (const char *at = file->input.text, *end = at + file->input.size; at < end && !sought.at;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at)), *next = newline ? newline + 1 : end;
        const char *directive = memmem(at, (size_t)(next - at), "//$ ", 4), *from = directive ? directive + 4 : next;
        template_words(at, (size_t)(next - at), seek_name, &sought); /* ignores names in comments */
        template_words(from, (size_t)(next - from), seek_name, &sought);
        place.col = sought.at ? (int)(sought.at - at) + 1 : 1;
        place.line += !sought.at;
        at = next;
    }
    if (!sought.at) /* it is in the name of a part */
        place.line = 1;
    return place;
}

/* A part must declare at its top the names that it reads. */
static void check_name(struct page *page, const char *name, bool needed, bool read) {
    if (read && !needed)
        diag_error(page->reader->diag, place_of(page->file, name),
                   "'%s' is set elsewhere: declare it at the top of this file with '//$ needs %s'", name, name);
    if (needed && !read)
        diag_error(page->reader->diag, (struct place){&page->file->input, page->file->needs_line, 1},
                   "this file says that it needs '%s', and does not read it", name);
}
static void check_names(struct page *page) {
    const struct template *t = page->reader->template;
    const struct template_file *file = page->file;
    for (int id = 0; id < KNOB_COUNT; id++)
        check_name(page, knob_table[id].name, knob_in(file->needs, id), knob_in(file->reads, id));
    for (int i = 0; i < t->slots; i++)
        if (t->slot[i].name && !(file->slot[i] & NAME_SET))
            check_name(page, t->slot[i].name, file->slot[i] & NAME_NEEDED, file->slot[i] & NAME_READ);
}

/* --- lines and files --- */

/* `whole` is the length of the line with trailing blanks and newline. */
static void read_line(struct page *page, int whole) {
    struct slice s = slice_trim((struct slice){page->line, page->size});
    page->size = (int)(s.text - page->line) + s.size;
    bool comment = s.size >= 2 && s.text[0] == '/' && s.text[1] == '/';
    struct slice after = comment ? slice_trim((struct slice){s.text + 2, s.size - 2}) : s;
    if (!comment || !after.size || *after.text != '$') {
        read_text_line(page, whole);
    } else if (s.size < 5 || s.text[2] != '$' || s.text[3] != ' ' || !text_is_letter(s.text[4])) {
        diag_error(page->reader->diag, page_place(page, s.text),
                   "this looks like a directive and is none: a directive is '//$', one blank and a word");
    } else {
        page_directive(page, (struct slice){s.text + 4, s.size - 4});
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

const char *page_load(struct reader *reader, const char *name, struct place from, size_t *size) {
    int errors = reader->diag->errors;
    const char *text = reader->load(reader->context, name, size);
    if (text && *size <= TEMPLATE_SIZE && !memchr(text, '\0', *size))
        return text;
    if (reader->diag->errors > errors && from.input) /* the loader has reported why */
        diag_note(reader->diag, from, "%s is included here", name);
    else if (!text && !from.input)
        reader->template->missing = true;
    else
        diag_error(reader->diag, from, "template '%s' %s", name,
                   !text                   ? "does not exist"
                   : *size > TEMPLATE_SIZE ? "is larger than 1 MiB"
                                           : "holds a NUL byte: it is not a text");
    return NULL;
}

bool page_include(struct reader *reader, const char *name, size_t size, struct place from, int *index) {
    struct template *t = reader->template;
    for (*index = 0; *index < t->files; ++*index)
        if (text_equals(name, size, t->file[*index].name)) {
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
    int errors = reader->diag->errors;
    const char *text = page_load(reader, copy, from, &length);
    if (!text) {
        free(copy);
        return false;
    }
    struct template_file *file = &t->file[t->files++];
    *file = (struct template_file){.name = copy, .input = {copy, text, length}, .open = true};
    struct page page = {.reader = reader, .file = file};
    reader->depth++;
    read_lines(&page);
    reader->depth--;
    file->open = false;
    template_words(text, length, read_constant, &page);
    if (from.input)
        check_names(&page);
    if (from.input && reader->diag->errors > errors)
        diag_note(reader->diag, from, "%s is included here", copy);
    return !reader->failed;
}

void template_read(struct template *template, template_loader *load, void *context, struct diag *diag) {
    struct reader reader = {.template = template, .load = load, .context = context, .diag = diag};
    int index;
    for (int i = 0; i < FACT_COUNT; i++)
        template->slot[i] = fact_table[i].name;
    template->slots = FACT_COUNT;
    page_include(&reader, template->name, strlen(template->name), (struct place){0}, &index);
    static const char *const derived[DERIVED_COUNT] = {
#define DERIVED(name) #name,
#include "derived.def"
    };
    for (int i = 0; i < DERIVED_COUNT; i++) {
        template->derived[i] = -1;
        for (int slot = 0; slot < template->slots; slot++)
            if (strcmp(template->slot_name[slot], derived[i]) == 0)
                template->derived[i] = slot;
    }
}
