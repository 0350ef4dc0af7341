/* helper_formula: formulas and parameters for tests: a scope of parameters, the contents of their tensors, and random
   formulas from the grammar. The same seed gives the same formula. */
#ifndef ATTILE_HELPER_FORMULA_H
#define ATTILE_HELPER_FORMULA_H

#include "formula.h"

/* window: int, wide: bool, cap: float, doc: int[batch, len_kv], slope: float[heads], seen: bool[len_q, len_kv],
   bias: float[heads, len_q, len_kv] */
void formula_fixture_scope(struct formula_scope *scope);

/* Returns null after an error, and prints it to stderr when `loud`. */
struct formula *formula_fixture_parse(enum formula_kind kind, const char *text, const struct formula_scope *scope,
                                      bool loud);

/* Sizes and scalars drawn from `seed`. A tensor element is a hash of parameter and indices, for any indices:
   ints -2 .. 11, reals in quarters -1.75 .. 1.5, and the extremes of the types: those of 32 bits, and infinities. A
   bound over a box of many elements is the extreme that the hash can give. */
struct formula_fixture {
    struct formula_env env;
    union formula_value scalar[FORMULA_PARAMS];
    const struct formula_scope *scope;
    bool finite; /* clamps elements to -2 .. 2 in place of infinities; for scores, set after drawing */
};
void formula_fixture_draw(struct formula_fixture *fixture, const struct formula_scope *scope, unsigned *seed);
extern const char formula_fixture_cxx[]; /* the same tensors for C++: doc_at(p, b, k), doc_least(..), ... */

unsigned formula_random(unsigned *seed, unsigned below);

/* Writes a random formula. Masks compare reals only where fp32 is exact. Masks of FLAVOR_AFFINE are conjunctions of
   comparisons that are affine in q and k. */
enum formula_flavor { FLAVOR_MASK, FLAVOR_AFFINE, FLAVOR_SCORE };
void formula_draw(enum formula_flavor flavor, int depth, unsigned *seed, struct text *text);

#endif
