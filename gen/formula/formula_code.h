/* formula_code: what directive `code` is replaced by: the mask and the score of a variant as lines of CUDA, for
   templates/part/formula.cuh, which says around them what they mean. Nothing reaches a source but printed trees and names
   that formula_declare has checked. */
#ifndef ATTILE_FORMULA_CODE_H
#define ATTILE_FORMULA_CODE_H

#include "formulas.h"

enum formula_code {
    CODE_HELPERS, /* functions that the expressions call */
    CODE_TENSORS, /* one function a tensor parameter: tensor_NAME(p, i, j) */
    CODE_BOUNDS,  /* tensor_NAME_least and _most for the tensors of the mask, over boxes of indices */
    CODE_TABLES,  /* make the tables of part/tables.cuh */
    CODE_MASK,    /* return MASK; over at, q, k */
    CODE_KEY, /* what a key is for mask and score: SplitKey where that makes float(k - q) and tensors cheaper, else int */
    CODE_PAIRS,  /* return whether tensors can be looked up by a SplitKey */
    CODE_PIECES, /* return whether the rows of FACT_AHEAD can be copied in pieces of 16 bytes */
    CODE_SCORE,  /* return SCORE; over at, q, k, s */
    CODE_CAP,    /* of a score that can be folded (formula_fold): return its cap; over at */
    CODE_FACTOR, /* ... its factor */
    CODE_REST,   /* ... its rest; over at, q, k */
    CODE_SLOPE,  /* ... its slope */
    CODE_KEYS,   /* return {first, end, full_first, full_end}; over at, q_first, q_last */
    CODE_EXACT,  /* constants: is every tile between first and end needed, is every full one within its own bounds */
    CODE_SOME,   /* return whether some pair of a tile may be seen; over at, q_first, q_last, k_first, k_last */
    CODE_ALL,    /* return whether all pairs of a tile are seen */
    FORMULA_CODES
};
/* What a template may ask about a mask or a score. */
enum formula_fact {
    FACT_TABLES, /* how many tensors want a table of bounds */
    FACT_EXACT,  /* 1: which tiles are needed is known in closed form (formula_keys.exact) */
    FACT_FOLDED, /* 1: the score is factor * s + rest; 2: cap * tanh(factor * s) + rest; 0: something else */
    FACT_KEYED,  /* 1: the score depends on k otherwise than through s; 2: it is folded, and rest is slope * (k - q) */
    FACT_LOOKUP, /* 1: the mask looks tensors up by k; 2: and a SplitKey will do for that */
    FACT_AHEAD /* 1: the only tensor that a score, not folded, looks up by k has 16-bit elements, and every pair of q and k
                    needs element k of a row of it, which can be copied before s is known */
};
bool formula_fact(const struct formula_set *set, enum formula_fact fact, int *value); /* false: out of memory */

const char *formula_code_name(enum formula_code code); /* "helpers", ... */

/* Append complete lines; nothing for a mask or score that the set has not. Memory that runs out shows in text->failed. */
void formula_code_print(const struct formula_set *set, enum formula_code code, struct text *text);

#endif
