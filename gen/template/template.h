/* template: the parsed form of templates.def's files, each with everything it includes.

   A file becomes a list of ops: runs of text, values within text, and directives. Blocks are linked by index, so a list
   is walked without looking for ends (walk.c). All names of a template and its parts share one table of slots. */
#ifndef ATTILE_TEMPLATE_H
#define ATTILE_TEMPLATE_H

#include "defaults.h"
#include "facts.h"
#include "gen.h"

enum {
    TEMPLATE_SLOTS = 128,    /* facts, which come first, lets and loop variables of one template with its parts */
    TEMPLATE_FILES = 256,    /* files of one template, itself included */
    TEMPLATE_NESTING = 16,   /* if and for within each other in one file */
    TEMPLATE_INCLUDES = 8,   /* include within include */
    TEMPLATE_SIZE = 1 << 20, /* bytes of one file */
    TEMPLATE_NAME = 48,      /* bytes of a let's name, NUL included */
    TEMPLATE_EXPRS = 5,      /* of one directive */
};

enum op_kind {
    OP_TEXT,  /* text[0..size) as it is; the first byte stands on line `line` */
    OP_VALUE, /* expr[0], printed */
    OP_IF,    /* expr[0]; next: the elif, else or end of the same block */
    OP_ELIF,
    OP_ELSE,
    OP_END,
    OP_FOR,       /* index: slot; expr[0]: list, or expr[1]: count; next: its end */
    OP_INCLUDE,   /* index: file */
    OP_LET,       /* index: slot; expr[0] */
    OP_DEFAULT,   /* index: knob; expr[0] */
    OP_DEFAULTS,  /* those of the template's table */
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

/* What a file does with a slot. */
enum { NAME_NEEDED = 1, NAME_READ = 2, NAME_SET = 4 };

struct template_file {
    char *name;         /* owned */
    struct input input; /* text borrowed from the loader */
    struct template_op *op;
    int ops;
    bool open;                          /* being parsed: including it now would never end */
    knob_flags needs, reads;            /* knobs that `needs` declares, and those that it names */
    unsigned char slot[TEMPLATE_SLOTS]; /* NAME_... */
    int needs_line;                     /* of the last `needs`, or 0 */
};

struct template {
    const char *name;  /* as in templates.def */
    bool missing;      /* no such file */
    unsigned families; /* bit family_... set, and SHAPE_OF_DEVICE: whose run-time sizes it may use */
    knob_flags used;
    struct expr *tune[KNOB_COUNT]; /* list of values worth trying for a knob that is left open, or null */
    struct defaults *defaults;     /* the table that it names, or null */
    knob_flags defaulted;          /* by `default` directives */
    struct template_file file[TEMPLATE_FILES];
    int files;
    char slot_name[TEMPLATE_SLOTS][TEMPLATE_NAME];
    char slot_upper[TEMPLATE_SLOTS][TEMPLATE_NAME]; /* as it is written in the text */
    struct expr_name slot[TEMPLATE_SLOTS];
    int slots;
    int derived[DERIVED_COUNT]; /* slots of these lets; -1 = the template has none */
};

/* Read template->name and all it includes into `template`, which the caller zeroed but for name and families. Errors go
   to the diag; a file that the loader does not have makes the template `missing`, which is none. */
void template_read(struct template *template, template_loader *load, void *context, struct diag *diag);

/* Item `i` of a `tune` list as a value of the knob; false when it is none. */
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

/* The template for these knobs, *row becoming its row, or null: then `reason` says what fits nothing. An algorithm that
   is AUTO means the first of the family. */
const struct template *template_find(const struct template_set *set, const struct knobs *knobs,
                                     const struct template_row **row, char *reason, size_t size);

/* Call `found` for every identifier in C++ text, comments and quotes left out; `capitals`: without a small letter. */
typedef void word_found(void *context, const char *name, size_t size, bool capitals);
void template_words(const char *text, size_t size, word_found *found, void *context);

/* The knob whose name in capitals this is, if it becomes a constant (integers do, words do not), or -1. */
int template_constant(const char *name, size_t size);

#endif
