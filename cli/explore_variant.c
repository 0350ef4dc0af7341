/* explore_variant: completes a candidate of an exploration to a variant. */
#include "explore.h"

void explore_variant(const struct exploration *e, const struct candidate *candidate, struct variant *variant) {
    struct knobs knobs = candidates_knobs(&e->candidates, candidate);
    variant_complete(e->catalog.templates, &knobs, false, variant);
}
