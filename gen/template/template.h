/* template: the parsed form of templates.def's files, each with everything it includes.

   A file becomes a list of ops: runs of text, values within text, and directives. Blocks are linked by index, so walk.c
   walks a list without searching for ends. All names of a template and its parts share one table of slots. */
#ifndef ATTILE_TEMPLATE_H
#define ATTILE_TEMPLATE_H

#include "defaults.h"
#include "facts.h"
#include "gen.h"

enum {
    TEMPLATE_SLOTS = 160,    /* facts, which come first, lets and loop variables of one template with its parts */
    TEMPLATE_FILES = 256,    /* files of one template, including itself */
    TEMPLATE_NESTING = 16,   /* nesting depth of if and for in one file */
    TEMPLATE_INCLUDES = 8,   /* nesting depth of include */
    TEMPLATE_SIZE = 1 << 20, /* bytes of one file */
    TEMPLATE_NAME = 48,      /* bytes of a let's name, including NUL */
    TEMPLATE_EXPRS = 5,      /* of one directive */
};

enum op_kind {
    OP_TEXT,  /* text[0..size) unchanged; the first byte is on line `line` */
    OP_VALUE, /* expr[0], printed */
    OP_IF,    /* expr[0]; next: the elif, else or end of the same block */
    OP_ELIF,
    OP_ELSE,
    OP_END,
    OP_FOR,       /* index: slot; expr[0]: list, or expr[1]: count; next: its end */
    OP_INCLUDE,   /* index: file */
    OP_LET,       /* index: slot; expr[0] */
    OP_DEFAULT,   /* index: knob; expr[0] */
    OP_DEFAULTS,  /* the defaults of the template's table */
    OP_REQUIRE,   /* expr[0] */
    OP_LAUNCH,    /* text[0..size): entry; expr[0..3]: grid, block, shared, cluster or null; index: enum plan_params;
                     flag: fills tables; dependent */
    OP_WORKSPACE, /* expr[0] */
    OP_SPLITS,    /* expr[0..4]: as enum plan_split; all but the first may be null */
    OP_CODE,      /* index: enum formula_code */
    OP_MAP,       /* text[0..size): name; index: enum plan_tensor; expr[0..1]: rows, columns of a box; flag: packed */
    OP_MAPS,      /* the maps as members of a struct */
};

struct template_op {
    enum op_kind kind;
    int line;
    int index;
    int next;
    const char *text;
    int size;
    bool flag, dependent;
    struct expr *expr[TEMPLATE_EXPRS];
};

/* How a file uses a slot. */
enum { NAME_NEEDED = 1, NAME_READ = 2, NAME_SET = 4 };

struct template_file {
    char *name;         /* owned */
    struct input input; /* text borrowed from the loader */
    struct template_op *op;
    int ops;
    bool open;                          /* being parsed: including it now would never end */
    knob_flags needs, reads;            /* knobs that `needs` declares, and knobs that the file names */
    unsigned char slot[TEMPLATE_SLOTS]; /* NAME_... */
    int needs_line;                     /* of the last `needs`, or 0 */
};

struct template {
    const char *name;  /* as in templates.def */
    bool missing;      /* no such file */
    unsigned families; /* bit family_... set, and SHAPE_OF_DEVICE: whose run-time sizes it may use */
    knob_flags used;
    struct expr *tune[KNOB_COUNT]; /* list of values worth trying for an open knob, or null */
    struct defaults *defaults;     /* the table that it names, or null */
    knob_flags defaulted;          /* by `default` directives */
    struct template_file file[TEMPLATE_FILES];
    int files;
    char slot_name[TEMPLATE_SLOTS][TEMPLATE_NAME];
    char slot_upper[TEMPLATE_SLOTS][TEMPLATE_NAME]; /* the name as text uses it */
    struct expr_name slot[TEMPLATE_SLOTS];
    int slots;
    int derived[DERIVED_COUNT]; /* slots of these lets; -1 = the template has none */
};

/* Reads template->name and all its includes into `template`, which the caller has zeroed except for name and families.
   Errors go to the diag. If the loader does not have the file, the template is `missing`, which is not an error. */
void template_read(struct template *template, template_loader *load, void *context, struct diag *diag);

/* Converts item `i` of a `tune` list to a value of the knob; false if it is not one. */
bool template_tune_value(const struct expr *list, int i, enum knob_id knob, int *value);

/* One row of templates.def. */
struct template_row {
    int family, algorithm;
    int loop_order; /* ANY_LOOP_ORDER: the algorithm has only one */
    const char *file;
};
enum { ANY_LOOP_ORDER = -2 };
extern const struct template_row template_rows[];
extern const int template_row_count;

/* Returns the template for these knobs and sets *row to its row; or null, and `reason` says what does not fit. An AUTO
   algorithm means the first of the family. */
const struct template *template_find(const struct template_set *set, const struct knobs *knobs,
                                     const struct template_row **row, char *reason, size_t size);

/* Calls `found` for every identifier in C++ text outside of comments and quotes; `capitals`: it has no lower-case
   letter. */
typedef void word_found(void *context, const char *name, size_t size, bool capitals);
void template_words(const char *text, size_t size, word_found *found, void *context);

/* Returns the knob whose name in capitals this is, if it becomes a constant (integers do, words do not), or -1. */
int template_constant(const char *name, size_t size);

#endif
