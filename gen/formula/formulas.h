/* formulas: the mask and the score of a problem, from the user's texts to those in struct knobs, and from these to
   trees. formula.h knows the language; this file knows what a problem has: at most one mask, one score, their
   parameters and those that a knob adds (sinks). */
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

/* Turns the texts of knobs whose value is an expression (for example knobs->mask == mask_custom_mask) into canonical
   ones in knobs->formulas. A text with the meaning of a word becomes that word: `k <= q` is `causal`. Texts that are
   not given stay as they are in knobs. Parameters that neither formula names are an error. False after an error. */
bool formulas_read(const struct formula_texts *texts, struct knobs *knobs, struct diag *diag);

/* Returns the word of the formula's knob with the same meaning, or the knob's last word; then appends the canonical
   text. */
int formulas_canonical(enum knob_id id, const struct formula *formula, struct text *text);

/* Returns the parameters that the formula needs, including those in the shapes of its tensors; bit i = parameter i. */
unsigned formulas_params(const struct formula_scope *scope, const struct formula *formula);

/* "window: int, slope: float[heads]" -> declarations. False after an error. */
bool formulas_declare(struct formula_scope *scope, struct formula_text params, struct diag *diag);

/* True, after an error, if users may not declare this name. */
bool formulas_reserved(const char *name, struct place place, struct diag *diag);

/* The mask and score of complete knobs as trees. */
struct formula_set {
    struct formula_scope scope;   /* declared parameters in order; with knob sinks the last one is `sinks` */
    struct formula *mask, *score; /* null where the knob is a word */
    struct wants wants;           /* of the backward pass; sinks: their gradient is available */
    struct formula_reads reads;   /* of the score, for the parameters whose gradients are requested */
    unsigned tabled;              /* bit i: the mask needs bounds over many elements of tensor i */
    char reason[96];              /* why it could not be opened */
};

/* False, with the reason, if memory ran out, if formulas_read did not write the texts in knobs, or if the parameters
   leave no room for `sinks`. Close it in any case. It must not move while open. A `tabled` tensor has a table of
   bounds, one entry per run of elements of its last dimension, which a launch fills before the kernel begins
   (templates/expression/tables_launch.cuh). */
bool formula_set_open(struct formula_set *set, const struct knobs *knobs);
void formula_set_close(struct formula_set *set);

#endif
