/* variant_label: names for variants that stand in one list: the knobs in which they differ, for those that they share
   need not be said in every row. */
#ifndef ATTILE_VARIANT_LABEL_H
#define ATTILE_VARIANT_LABEL_H

#include "gen.h"

struct variant_label {
    struct variant first; /* of the list */
    int count;
    knob_flags varying; /* not the same everywhere */
};

void variant_label_add(struct variant_label *label, const struct variant *variant);

/* "causal flash_tiled m64 n32", values as kernel names have them; the algorithm when they differ in nothing. */
void variant_label_print(const struct variant_label *label, const struct variant *variant, struct text *text);

/* A value that goes without saying: an output type as the input's, no sinks. */
bool variant_label_implied(const struct knobs *knobs, enum knob_id id);

/* What they share: "family=softmax dtype=fp16", without what is implied; of a single variant its name. */
void variant_label_print_shared(const struct variant_label *label, struct text *text);

#endif
