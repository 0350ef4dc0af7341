/* formulas: the mask and the score of a problem, from the texts that a user wrote to those in struct knobs, and from these
   to trees. formula.h knows the language; this knows what a problem has: at most one mask, one score, their parameters
   and those that a knob brings along (sinks). */
#ifndef ATTILE_FORMULAS_H
#define ATTILE_FORMULAS_H

#include "formula.h"
#include "knobs.h"
#include "wants.h"

struct formula_texts {
    struct formula_text mask, score, wants;
    struct formula_text params; /* "window: int, slope: float[heads]" */
};

static inline struct formula_text *formula_text_of(struct formula_texts *texts, enum knob_id id) {
    return id == KNOB_mask ? &texts->mask : id == KNOB_score ? &texts->score : &texts->wants;
}

/* Turn the texts of knobs whose value is an expression (knobs->mask == mask_custom_mask, say) into canonical ones in
   knobs->formulas. A text that says what a word says becomes that word: `k <= q` is `causal`. What is not given stays as
   it is in knobs. Parameters that neither formula names are an error. False after an error. */
bool formulas_read(const struct formula_texts *texts, struct knobs *knobs, struct diag *diag);

/* One formula -> the word of its knob that says the same, or the knob's last word and its canonical text (appended). */
int formulas_canonical(enum knob_id id, const struct formula *formula, struct text *text);

/* The parameters that the formula needs, those in the shapes of its tensors included; bit i = parameter i. */
unsigned formulas_params(const struct formula_scope *scope, const struct formula *formula);

/* "window: int, slope: float[heads]" -> declarations. False after an error. */
bool formulas_declare(struct formula_scope *scope, struct formula_text params, struct diag *diag);

/* Is this a name that users may not declare? Then also an error. */
bool formulas_reserved(const char *name, struct place place, struct diag *diag);

/* Mask and score of complete knobs as trees. */
struct formula_set {
    struct formula_scope scope;   /* declared parameters in order; with knob sinks the last one is `sinks` */
    struct formula *mask, *score; /* null where the knob is a word */
    struct wants wants;           /* of the backward pass; sinks: their gradient can be had */
    struct formula_reads reads;   /* of the score, by the parameters of which gradients are wanted */
    unsigned tabled;              /* bit i: a tensor of which the mask needs to know bounds over many elements */
    char reason[96];              /* why it could not be opened */
};

/* False, with the reason, when memory ran out, the texts in knobs are not those that formulas_read wrote, or there is
   no room for `sinks` beside the parameters. Close it in any case. It must stay where it is while open. Tensors that
   are `tabled` have a table of bounds, one for each run of elements of their last dimension, which a kernel makes
   before it begins (templates/expression/tables_launch.cuh). */
bool formula_set_open(struct formula_set *set, const struct knobs *knobs);
void formula_set_close(struct formula_set *set);

#endif
