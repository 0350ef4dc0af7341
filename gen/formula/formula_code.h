/* formula_code: what directive `code` is replaced by: the mask and the score of a variant as lines of CUDA, for
   templates/expression/formula.cuh, which says around them what they mean. Nothing reaches a source but printed trees and names
   that formula_declare has checked. */
#ifndef ATTILE_FORMULA_CODE_H
#define ATTILE_FORMULA_CODE_H

#include "formulas.h"

enum formula_code {
    CODE_HELPERS, /* functions that the expressions call */
    CODE_TENSORS, /* one function a tensor parameter: tensor_NAME(p, i, j) */
    CODE_BOUNDS,  /* tensor_NAME_least and _most for the tensors of the mask, over boxes of indices */
    CODE_TABLES,  /* make the tables of expression/tables_launch.cuh */
    CODE_MASK,    /* return MASK; over at, q, k */
    CODE_KEY, /* what a key is for mask and score: SplitKey where that makes float(k - q) and tensors cheaper, else int */
    CODE_BIAS,       /* an element of the rows of a bias (formula_has_bias_rows) that is there, and where it was */
    CODE_PAIRS,      /* return whether tensors can be looked up by a SplitKey */
    CODE_PIECES,     /* return whether rows of a bias (formula_has_bias_rows) can be copied in pieces of 16 bytes */
    CODE_SCORE,      /* return SCORE; over at, q, k, s */
    CODE_DERIVATIVE, /* return d SCORE / d s; over at, q, k, s */
    CODE_GRADIENTS, /* one function for each parameter of which the gradient is wanted: d_NAME(params, i, j), its place */
    CODE_CLEARED,   /* statements that clear these gradients */
    CODE_HEAD_READS, /* add to sum[i] what a pair adds to the gradient of read i of a head; over at, q, k, s, d_score */
    CODE_HEAD_PLACES, /* return where the gradient of read number `read` of a head is; over at */
    CODE_PAIR_READS,  /* add what a pair adds to the gradients of what it alone reads; over at, q, k, s, d_score */
    CODE_QUERY_READS, /* the same of COUNT queries from q on and one key; over at, q, k, d_scores[COUNT] */
    CODE_CAP,         /* of a score that can be folded (formula_fold): return its cap; over at */
    CODE_FACTOR,      /* ... its factor */
    CODE_REST,        /* ... its rest; over at, q, k */
    CODE_SLOPE,       /* ... its slope */
    CODE_KEYS,        /* return {first, end, full_first, full_end}; over at, q_first, q_last */
    CODE_EXACT, /* constants: is every tile between first and end needed, is every full one within its own bounds */
    CODE_SOME,  /* return whether some pair of a tile may be seen; over at, q_first, q_last, k_first, k_last */
    CODE_ALL,   /* return whether all pairs of a tile are seen */
    FORMULA_CODES
};

/* Will a SplitKey (templates/expression/split_key.cuh) do for the tensors that the mask looks up by k? */
bool formula_splits_mask(const struct formula_set *set);

/* Bit i: tensor i is looked up by k in its last dimension. Null has none. */
unsigned formula_keyed_tensors(const struct formula *formula);

/* Is the only tensor that the score looks up by k one of 16-bit elements, and does every pair of q and k need element k of a
   row of it? It can be copied before s is known then. Never of a score that can be folded. */
bool formula_has_bias_rows(const struct formula_set *set);

/* How names are written in all of this: at.h, q, k, s, p.param[i]. Borrows the set. */
struct formula_spelling formula_code_spelling(const struct formula_set *set);

/* "", "_least" or "_most", behind the name of the function that reads a tensor. */
const char *formula_access_suffix(enum formula_access access);

/* Those of formula_code_gradients.c. */
void formula_code_gradients(const struct formula_set *set, struct text *text);
void formula_code_cleared(const struct formula_set *set, struct text *text);
void formula_code_head_reads(const struct formula_set *set, struct text *text);
void formula_code_head_places(const struct formula_set *set, struct text *text);
void formula_code_pair_reads(const struct formula_set *set, struct text *text);
void formula_code_query_reads(const struct formula_set *set, struct text *text);

const char *formula_code_name(enum formula_code code); /* "helpers", ... */

/* Append complete lines; nothing for a mask or score that the set has not. Memory that runs out shows in text->failed. */
void formula_code_print(const struct formula_set *set, enum formula_code code, struct text *text);

#endif
