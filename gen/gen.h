/* gen: YAML specs and templates in, CUDA source out. This is the interface of all subfolders of this folder.

       template_set_open   templates (embedded ones, or a caller's)      -> parsed once
       spec_read           YAML text                                     -> struct spec
       variants_next       spec                                          -> one value for every knob, feasible or why not
       variant_complete    some knobs given (a problem)                  -> every knob, or why not
       source_expand       template + knobs                              -> CUDA text, launch plan, line map

   gen reads no files, prints nothing and keeps no globals: texts come from the caller and go back to it. Functions that
   can fail return false or null and add at least one error to the diag. Objects may be shared between threads once
   made. */
#ifndef ATTILE_GEN_H
#define ATTILE_GEN_H

#include "diag.h"
#include "formula.h"
#include "knobs.h"
#include "plan.h"

/* --- templates ------------------------------------------------------------------------------------------------- */

struct template_set;
struct default_row; /* tuned/defaults.h */

/* Finds a template by its name relative to templates/, for example "fragment/softmax.cuh". Returns null if there is
   none. The text must live until template_set_close. A loader may add an error to the diag of template_set_open; then
   there is no set. */
typedef const char *template_loader(void *context, const char *name, size_t *size);

/* The templates built into this library. */
template_loader template_embedded;

/* Opens the templates of templates.def, each with all its includes. A null loader means template_embedded, whose
   templates are parsed on first use, by any thread. With a loader, all templates are parsed here: structure errors
   appear here, once, and the loader is not called later. A missing template file is an error only when it is used. The
   caller closes the set; variants and sources made from it do not point into it. */
struct template_set *template_set_open(template_loader *load, void *context, struct diag *diag);
void template_set_close(struct template_set *set); /* accepts null */

/* --- variants -------------------------------------------------------------------------------------------------- */

enum { VARIANT_NAME = 240, VARIANT_REASON = 1024 };

enum derived_id {
#define DERIVED(name) DERIVED_##name,
#include "derived.def"
    DERIVED_COUNT
};
enum { DERIVED_NONE = INT32_MIN };

struct variant {
    struct knobs knobs; /* complete: AUTO only in knobs that this variant's template does not use */
    knob_flags used;    /* knobs that the template uses; family, algorithm, target always */
    bool feasible;
    int block_threads; /* largest block of its launches */
    int shared_bytes;  /* likewise, dynamic shared memory */
    int launches;
    struct plan_expr grid; /* of the last launch with the family's parameters: other launches prepare or combine */
    struct plan_splits splits;
    int derived[DERIVED_COUNT]; /* values of the template's lets */
    bool boxed; /* copies tensors in boxes (tensor_map): needs addresses and strides that are multiples of 16 bytes */
    /* A C identifier, built from knobs.def in order. Different variants have different names, except for expressions
       and their parameters, of which the name holds a 64-bit hash. */
    char name[VARIANT_NAME];
    char reason[VARIANT_REASON]; /* if not feasible, the constraint that failed, with its values; else "" */
};

/* Derives the AUTO knobs (dtype_out, head_dim_v, the template's defaults), then checks the template's
   `require` directives and the target's limits. A knob that is given but not used by the template makes the variant
   infeasible if `strict`; otherwise it is reset to AUTO.
   Returns variant->feasible; never adds to a diag: the reason is in the variant. */
bool variant_complete(const struct template_set *set, const struct knobs *knobs, bool strict, struct variant *variant);

/* Returns the row of the template's table of defaults that applies to this variant, whether or not it was needed;
   borrowed from the set. Null if the template has no such table. */
const struct default_row *variant_default_row(const struct template_set *set, const struct variant *variant);

/* True if two feasible variants have equal knobs. Their names are then equal too. */
bool variant_same(const struct variant *a, const struct variant *b);

/* Prints "family: attention_forward, dtype: fp32, ..." with every used knob in table order: its key in cache and
   bundles. */
void variant_print(const struct variant *variant, struct text *text);

/* Prints the two texts with which att_find finds exactly this variant. */
void variant_print_problem(const struct variant *variant, struct text *problem, struct text *schedule);

/* Reads "dtype=bf16 head_dim=96, mask=causal" (name=value or name: value, separated by spaces, commas or newlines) into
   `knobs`; knobs that are not named keep their values. Expressions and their declared parameters are quoted:
   mask="q - k < window" params="window: int". `groups` has bit KNOB_GROUP_... set for each group that may be named.
   `input` is borrowed for the messages. */
bool knobs_parse(const struct input *input, unsigned groups, struct knobs *knobs, struct diag *diag);

/* What is known about future launches. It helps to choose a variant but is not part of it. */
struct hints {
    struct shape shape; /* a size that is not given is -1 */
    int alignment;      /* bytes that addresses and strides are multiples of; 0 = not given */
};

/* The same for a problem's text, which may also contain sizes: "head_dim=96 len_q=4096 alignment=16". */
bool problem_parse(const struct input *input, unsigned groups, struct knobs *knobs, struct hints *hints,
                   struct diag *diag);

/* --- specs ----------------------------------------------------------------------------------------------------- */

enum { SPEC_SHAPES = 64, SPEC_INPUTS = 8 };

struct spec_axis { /* the values one knob may take, in the spec's order */
    int count;
    int *value;         /* an expression: the knob's last word plus its number in spec.formula */
    struct place place; /* of the key; line 0 = left out, and the axis holds the default */
};

struct spec {
    struct input input; /* a copy owned by the spec, so that places stay valid */
    char *about;        /* never null */
    int family;
    struct spec_axis axis[KNOB_COUNT];
    struct formula_scope params; /* declared for masks and scores */
    int formulas;                /* masks and scores that are expressions, and lists of requested gradients */
    struct spec_formula {
        char *text;         /* canonical; owned */
        unsigned params;    /* bit i: it needs parameter i */
        struct place place; /* where it begins */
    } * formula;
    int requires; /* conditions of the spec itself */
    struct expr **require;
    struct place *require_place;
    int shapes; /* test shapes; sizes that a shape leaves out are filled from shapes.def */
    struct shape *shape;
    struct place *shape_place;
    int inputs; /* test: inputs: named tensor files, relative to the spec's own folder */
    struct spec_input {
        char *name; /* q, k, v, mask..., x */
        char *path;
        struct place place;
    } input_file[SPEC_INPUTS];
};

/* Reads a whole spec and reports all errors of the text in one pass. Null if there is any. Limits: 1 MiB, depth 16,
   20,000 events, 4 KiB per scalar; anchors, aliases, tags, duplicate and unknown keys are refused. */
struct spec *spec_read(const char *name, const char *text, size_t size, struct diag *diag);
void spec_free(struct spec *spec); /* accepts null */

/* Gives a spec the expressions of these knobs; its axes already hold mask_custom_mask or score_custom_score. */
bool spec_take_formulas(struct spec *spec, const struct knobs *knobs, struct diag *diag);

/* Prints the field reference (specs/README.md), generated from knobs.def and shapes.def. */
void spec_reference(struct text *text);

/* Iterates lazily over all combinations of a spec's values in a fixed order (first knob of the table slowest).
   Combinations that differ only in knobs their template does not use appear once. A condition of the spec applies to
   the variants that use all knobs it names. A knob that the spec gives and no algorithm of the spec uses makes every
   variant infeasible. */
struct variants {
    const struct spec *spec;
    const struct template_set *set;
    int index[KNOB_COUNT];
    knob_flags used;        /* by the variant at `index` */
    knob_flags used_by_any; /* by any algorithm of the spec */
    bool done;
};

void variants_open(struct variants *variants, const struct spec *spec, const struct template_set *set);
bool variants_next(struct variants *variants, struct variant *variant); /* false at the end */

/* --- spaces ---------------------------------------------------------------------------------------------------- */

/* Makes a spec that pins the knobs of "family=attention_forward head_dim=96 ..." and leaves the others open, as if they
   were left out of a file; sizes ("len_q=4096 heads=16") become its shape. The caller frees it. Null after errors,
   which are in the diag. */
struct spec *spec_from_knobs(const char *name, const char *text, struct diag *diag);

/* Iterates lazily over all schedules of a spec's problems. A schedule knob that the spec leaves open takes the values
   of the template's `tune` directive, else all words of the knob, else its default. An open algorithm, loop order or
   target takes all values. Targets outside of `targets` (bit target_... set) are not tried; a template that does not
   use the target has one variant for all targets. */
struct space {
    const struct template_set *set;
    const struct spec *spec;
    unsigned targets;
    struct spec narrowed; /* the spec, its open axes filled for one template */
    int *values;          /* of those axes; owned */
    struct variants variants;
    int row;   /* next of templates.def */
    bool open; /* true if `variants` has more */
    bool failed;
};

void space_open(struct space *space, const struct spec *spec, const struct template_set *set, unsigned targets);
bool space_next(struct space *space, struct variant *variant); /* false at the end, or if memory ran out: `failed` */
void space_close(struct space *space);

/* --- sources --------------------------------------------------------------------------------------------------- */

struct line_origin {  /* where an emitted line came from */
    const char *file; /* template name, owned by the source; null for generated lines */
    int line;
};

struct source {
    struct text text; /* the complete CUDA file */
    struct plan plan;
    struct line_origin *origin; /* origin[i] belongs to emitted line i + 1 */
    int lines;
    char **files; /* names that origin points to */
    int file_count;
};

/* Expands a feasible variant. `spec_name` appears in the explanatory header ("<problem>" if there is no spec).
   Equal inputs give equal bytes. The caller frees the source, also after failure. */
bool source_expand(const struct template_set *set, const struct variant *variant, const char *spec_name,
                   struct source *source, struct diag *diag);
void source_free(struct source *source);

/* The generator's own version, part of every source and cache key. */
#define GEN_VERSION "0.1.0"

#endif
