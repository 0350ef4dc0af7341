/* variant_label: names for variants in one list: only the knobs in which they differ, as shared ones need not be
   repeated in every row. */
#ifndef ATTILE_VARIANT_LABEL_H
#define ATTILE_VARIANT_LABEL_H

#include "gen.h"

struct variant_label {
    struct variant first; /* first of the list */
    int count;
    knob_flags varying; /* knobs that differ */
};

void variant_label_add(struct variant_label *label, const struct variant *variant);

/* Prints "causal flash_tiled m64 n32", values as in kernel names; the algorithm if the variants do not differ. */
void variant_label_print(const struct variant_label *label, const struct variant *variant, struct text *text);

/* True if a value is implied: an output type equal to the input's, no sinks. */
bool variant_label_implied(const struct knobs *knobs, enum knob_id id);

/* Prints what they share: "family=softmax dtype=fp16", without implied values; for a single variant its name. */
void variant_label_print_shared(const struct variant_label *label, struct text *text);

#endif
