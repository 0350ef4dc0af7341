/* variant_names: names under which files, manifests and tables keep variants: two variants must not have the same
   name. */
#ifndef ATTILE_VARIANT_NAMES_H
#define ATTILE_VARIANT_NAMES_H

#include "gen.h"

struct variant_names { /* all zero = empty */
    void *root;        /* tree of names; owned */
};

enum variant_names_answer { VARIANT_NAMES_NEW, VARIANT_NAMES_KNOWN, VARIANT_NAMES_FAILED };

/* Adds a feasible variant. VARIANT_NAMES_FAILED with a sentence in *error: another variant has that name, or memory ran
   out. */
enum variant_names_answer variant_names_take(struct variant_names *names, const struct variant *variant,
                                             struct text *error);
void variant_names_free(struct variant_names *names);

#endif
