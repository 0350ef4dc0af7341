/* template_page: one file of a template while it is being read; shared by the files template_*.c only. template_read.c
   handles its lines, template_directive.c the directives among them, and both add their results here. */
#ifndef ATTILE_TEMPLATE_PAGE_H
#define ATTILE_TEMPLATE_PAGE_H

#include "template.h"

struct reader {
    struct template *template;
    template_loader *load;
    void *context;
    struct diag *diag;
    int depth;   /* of includes */
    bool failed; /* out of memory: stop at once */
};

/* A piece of the current line. */
struct slice {
    const char *text;
    int size;
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
    int block[TEMPLATE_NESTING];  /* open blocks: op of the latest if, elif, else or for */
    int loops;                    /* number of `for` among them */
    int behind;                   /* the line that had `if` or `elif` after its text */
    struct slice bound;           /* the name that the values of this line are for, once it is known */
    const struct expr *condition; /* of the value that is being read, or null */
};

bool slice_is(struct slice s, const char *word);
struct slice slice_trim(struct slice s);     /* removes blanks on both sides */
struct slice slice_name(struct slice *rest); /* takes a name off the front, with blanks on both sides; may be empty */

struct place page_place(const struct page *page, const char *at); /* `at` within the current line */

/* Adds an op at the end of the file's list and returns it, or null. Takes ownership of the expressions in `op`, even if
   it fails. */
struct template_op *page_add(struct page *page, struct template_op op);

/* Parses an expression that spans `s`, or (with `used`) its beginning. With `sizes` it may name run-time sizes. */
struct expr *page_expr(struct page *page, struct slice s, size_t *used, unsigned wanted, bool sizes);

/* Notes which names an expression of this page reads. */
void page_reads(struct page *page, const struct expr *expr);

/* Returns the slot for a new name; -1 after an error. A `let` may reuse a slot, in another branch, with the same
   type. */
int page_slot(struct page *page, struct slice name, struct expr_type type, bool again);

/* Returns the text of a file; `from` is the place of the include. Null after an error, or if the template itself is
   missing. */
const char *page_load(struct reader *reader, const char *name, struct place from, size_t *size);

/* Reads a file unless it has already been read. False after an error. */
bool page_include(struct reader *reader, const char *name, size_t size, struct place from, int *index);

/* Adds a branch to a block, after the branch that begins with op `last` (-1: none). Takes ownership of the condition;
   null = else. */
void page_branch(struct page *page, int *last, struct expr *condition);
void page_branch_end(struct page *page,
                     int last); /* of the whole block; none is open when `last` is -1. Its op has `last` as next */

/* Reads a directive after its word. */
typedef void page_read(struct page *page, struct slice word, struct slice rest);

/* The same for VALUE [if COND [else VALUE ...]], where `read` reads one value. */
void page_choice(struct page *page, struct slice word, struct slice rest, page_read *read);

/* Includes the parts whose name has "$NAME", one for each word of NAME that the condition of this line allows. */
void page_include_words(struct page *page, struct slice file);

/* Reads the rest of a line that starts with `//$ `. */
void page_directive(struct page *page, struct slice rest);

#endif
