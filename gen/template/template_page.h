/* template_page: one file of a template while it is being read; shared by the files template_*.c only. template_read.c
   goes over its lines, template_directive.c over the directives among them, and both add what they find here. */
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
    int loops;                    /* how many of them are `for` */
    int behind;                   /* the line that had `if` or `elif` behind its text */
    struct slice bound;           /* the name that the values of this line are for, once it is known */
    const struct expr *condition; /* of the value that is being read, or null */
};

bool slice_is(struct slice s, const char *word);
struct slice slice_trim(struct slice s);     /* without blanks around it */
struct slice slice_name(struct slice *rest); /* taken off the front, with blanks on both sides; may be empty */

struct place page_place(const struct page *page, const char *at); /* `at` within the current line */

/* A new op at the end of the file's list, or null. It takes over the expressions in `op`, also when it fails. */
struct template_op *page_add(struct page *page, struct template_op op);

/* Parse an expression that is all of `s`, or (with `used`) its beginning. With `sizes` it may name run-time sizes. */
struct expr *page_expr(struct page *page, struct slice s, size_t *used, unsigned wanted, bool sizes);

/* Note which names an expression of this page reads. */
void page_reads(struct page *page, const struct expr *expr);

/* The slot for a new name; -1 after an error. A `let` may name a slot again, in another branch, with the same type. */
int page_slot(struct page *page, struct slice name, struct expr_type type, bool again);

/* The text of a file; `from` is the place of the include. Null after an error, or when the template itself is missing. */
const char *page_load(struct reader *reader, const char *name, struct place from, size_t *size);

/* Read a file, or find it already read. False after an error. */
bool page_include(struct reader *reader, const char *name, size_t size, struct place from, int *index);

/* One more branch of a block, behind the one that begins with op `last` (-1: there is none). Takes over the condition; null = else. */
void page_branch(struct page *page, int *last, struct expr *condition);
void page_branch_end(struct page *page,
                     int last); /* of the whole block; none is open when `last` is -1. Its op has `last` as next */

/* Read a directive behind its word. */
typedef void page_read(struct page *page, struct slice word, struct slice rest);

/* The same for VALUE [if COND [else VALUE ...]], where `read` is for one value. */
void page_choice(struct page *page, struct slice word, struct slice rest, page_read *read);

/* Include the parts whose name has "$NAME", one for each word of NAME that the condition of this line allows. */
void page_include_words(struct page *page, struct slice file);

/* Read the rest of a line that starts with `//$ `. */
void page_directive(struct page *page, struct slice rest);

#endif
