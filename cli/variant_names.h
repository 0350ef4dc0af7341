/* names: what is kept by a variant's name, in files, manifests and tables, must not be two variants. */
#ifndef ATTILE_VARIANT_NAMES_H
#define ATTILE_VARIANT_NAMES_H

#include "gen.h"

struct variant_names { /* all zero = empty */
    void *root;        /* of a tree of names; owned */
};

enum variant_names_answer { VARIANT_NAMES_NEW, VARIANT_NAMES_KNOWN, VARIANT_NAMES_FAILED };

/* Take a feasible variant in. VARIANT_NAMES_FAILED with a sentence in *error: another variant has that name, or no memory. */
enum variant_names_answer variant_names_take(struct variant_names *names, const struct variant *variant,
                                             struct text *error);
void variant_names_free(struct variant_names *names);

#endif
