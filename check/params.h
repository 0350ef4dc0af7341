/* params: the parameters of the mask and the score of a problem, as numbers: random or given ones, in the form that the
   oracle and a launch need. */
#ifndef ATTILE_PARAMS_H
#define ATTILE_PARAMS_H

#include "attile.h"
#include "formulas.h"
#include "gen.h"

struct param_value {
    enum att_param_type type;
    int bytes; /* of an element */
    int64_t size[FORMULA_DIMS];
    int64_t count; /* elements; 1 for a scalar */
    double *value; /* packed, already rounded to the type; owned */
};

struct params {
    struct formula_set formulas; /* declares the parameters, in the same order */
    struct formula_env env;      /* sizes, scalars, tensors; for one pair of query and key at a time */
    union formula_value scalar[FORMULA_PARAMS];
    struct param_value param[FORMULA_PARAMS];
    bool given[FORMULA_PARAMS];                            /* not random */
    char gradient[FORMULA_PARAMS][FORMULA_PARAM_NAME + 2]; /* "d_NAME" of each */
};

/* Makes the parameters of a problem at these sizes: as in `given`, "window=1024, doc=doc.npy" (may be null), the others
   at random. Equal seeds give equal numbers. Null with a sentence in *error. The result does not move until
   params_free. */
struct params *params_make_given(const struct knobs *problem, const struct shape *shape, uint64_t seed,
                                 const char *given, struct text *error);
struct params *params_make(const struct knobs *problem, const struct shape *shape, uint64_t seed, struct text *error);

/* True if the parameters are in the range of formulas and all indices are within tensors; else false with a sentence in
   *error. */
bool params_fit(const struct params *params, struct text *error);
void params_free(struct params *params); /* accepts null */

/* Writes element `i` of a tensor as the bytes that a kernel reads. */
void params_encode(const struct param_value *param, int64_t i, void *bytes);

#endif
