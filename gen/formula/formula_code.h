/* formula_code: the replacement of the directive `code`: the mask and the score of a variant as lines of CUDA, for
   templates/expression/formula.cuh, whose comments say what they mean. Only printed trees and names that
   formula_declare has checked reach a source. */
#ifndef ATTILE_FORMULA_CODE_H
#define ATTILE_FORMULA_CODE_H

#include "formulas.h"

enum formula_code {
    CODE_HELPERS,       /* functions that the expressions call */
    CODE_TENSORS,       /* one function per tensor parameter: tensor_NAME(p, i, j) */
    CODE_BOUNDS,        /* tensor_NAME_least and _most for the tensors of the mask, over boxes of indices */
    CODE_TABLES,        /* statements that make the tables of expression/tables_launch.cuh */
    CODE_MASK,          /* return MASK; over at, q, k */
    CODE_QUERY_FIELDS,  /* fields of a struct: what the mask reads from tensors for a query, whatever the key */
    CODE_QUERY_VALUES,  /* return it; over at, q */
    CODE_QUERY_OF_LANE, /* return what another lane has; over mine, lane */
    CODE_KEY_FIELDS,    /* the same for a key, whatever the query */
    CODE_KEY_VALUES,    /* return it; over at, k */
    CODE_MASK_OF_READS, /* return MASK; over at, q, k, of_query, of_key */
    CODE_KEY,    /* key types of mask and score: SplitKey where it makes float(k - q) and tensors cheaper, else int */
    CODE_BIAS,   /* functions for a loaded element of bias rows (formula_has_bias_rows), and for its address */
    CODE_PAIRS,  /* return whether a SplitKey can index the tensors */
    CODE_PIECES, /* return whether rows of a bias (formula_has_bias_rows) can be copied in pieces of 16 bytes */
    CODE_SCORE,  /* return SCORE; over at, q, k, s */
    CODE_DERIVATIVE,   /* return d SCORE / d s; over at, q, k, s */
    CODE_GRADIENTS,    /* one function per parameter with a requested gradient: d_NAME(params, i, j), its address */
    CODE_CLEARED,      /* statements that clear these gradients */
    CODE_ELEMENTS,     /* return the only one of these gradients */
    CODE_ELEMENT,      /* return the address of a pair's element of it; over at, q, k */
    CODE_ELEMENT_STEP, /* return the distance to the next query's, if the query is an index */
    CODE_HEAD_READS,   /* add a pair's part of the gradient of read i of a head to sum[i]; over at, q, k, s, d_score */
    CODE_HEAD_PLACES,  /* return the address of the gradient of read number `read` of a head; over at */
    CODE_PAIR_READS,   /* add a pair's contribution to the gradients of its own reads; over at, q, k, s, d_score */
    CODE_QUERY_READS,  /* the same for COUNT queries from q on and one key; over at, q, k, d_scores[COUNT] */
    CODE_CAP,          /* of a score that can be folded (formula_fold): return its cap; over at */
    CODE_FACTOR,       /* ... its factor */
    CODE_REST,         /* ... its rest; over at, q, k */
    CODE_SLOPE,        /* ... its slope */
    CODE_KEYS,         /* return {first, end, full_first, full_end}; over at, q_first, q_last */
    CODE_EXACT, /* constants: is every tile between first and end needed, is every full tile within the full range */
    CODE_SOME,  /* return whether some pair of a tile may be seen; over at, q_first, q_last, k_first, k_last */
    CODE_ALL,   /* return whether all pairs of a tile are seen */
    FORMULA_CODES
};

/* True if a SplitKey (templates/expression/split_key.cuh) works for the tensors that the mask indexes with k. */
bool formula_splits_mask(const struct formula_set *set);

/* Bit i: k indexes the last dimension of tensor i. None for a null formula. */
unsigned formula_keyed_tensors(const struct formula *formula);

/* True if the only tensor that the score indexes with k has 16-bit elements, and every pair of q and k needs element k
   of one of its rows: it can then be copied before s is known. Never true for a score that can be folded. */
bool formula_has_bias_rows(const struct formula_set *set);

/* How all of this code writes names: at.h, q, k, s, p.param[i]. Borrows the set. */
struct formula_spelling formula_code_spelling(const struct formula_set *set);

/* "", "_least" or "_most": the suffix of a function that reads a tensor. */
const char *formula_access_suffix(enum formula_access access);

/* Returns the number of elements of tensors that the mask reads for a query, whatever the key; negative if memory ran
   out. Defined in formula_code_reads.c, with the code that they need. */
int formula_query_reads(const struct formula_set *set);
void formula_code_query_fields(const struct formula_set *set, struct text *text);
void formula_code_query_values(const struct formula_set *set, struct text *text);
void formula_code_query_of_lane(const struct formula_set *set, struct text *text);
void formula_code_key_fields(const struct formula_set *set, struct text *text);
void formula_code_key_values(const struct formula_set *set, struct text *text);
void formula_code_mask_of_reads(const struct formula_set *set, struct text *text);

/* Defined in formula_code_gradients.c. */
void formula_code_gradients(const struct formula_set *set, struct text *text);
void formula_code_cleared(const struct formula_set *set, struct text *text);
void formula_code_elements(const struct formula_set *set, struct text *text);
void formula_code_element(const struct formula_set *set, struct text *text);
void formula_code_element_step(const struct formula_set *set, struct text *text);
void formula_code_head_reads(const struct formula_set *set, struct text *text);
void formula_code_head_places(const struct formula_set *set, struct text *text);
void formula_code_pair_reads(const struct formula_set *set, struct text *text);
void formula_code_query_reads(const struct formula_set *set, struct text *text);

const char *formula_code_name(enum formula_code code); /* "helpers", ... */

/* Appends complete lines; nothing if the set lacks the mask or score. Sets text->failed if memory runs out. */
void formula_code_print(const struct formula_set *set, enum formula_code code, struct text *text);

#endif
