/* formula: the language of masks and scores, from one line of text to everything derived from it.

       formula_parse        text      -> checked tree; named masks and scores (formulas.def) are expanded
       formula_print        tree      -> canonical text: the basis of identity, names and cache keys
       formula_print_cuda   tree      -> a C++ expression
       formula_mask, _score tree      -> its value at one (b, h, q, k), in exact integers and double precision
       formula_tile         mask      -> two formulas over a tile's corners: may some pair be seen, are all pairs seen
       formula_keys         mask      -> four formulas over a Q tile: which keys it may see, and which it surely sees

   The bounds of a tile are formulas too: the same printer prints them, and the same evaluator evaluates them. This is
   the only interval arithmetic; the device has no second one.

   Integers are exact. Every node knows a range that its value cannot leave, derived from FORMULA_LENGTH and
   FORMULA_SCALAR. The parser refuses what could leave 64 bits, and CUDA gets 64-bit arithmetic only where 32 bits are
   too few. Every expression has a value: x // 0 is 0, x % 0 is x, shift counts are limited to 0..63.
   docs/expressions.md.

   A formula is immutable once made and may be shared between threads. It borrows its scope, which must outlive it. */
#ifndef ATTILE_FORMULA_H
#define ATTILE_FORMULA_H

#include "diag.h"

#include <stdint.h>

/* --- what a formula may refer to ------------------------------------------------------------------------------- */

/* The names of the language, all integers except s. Positions are absolute: equal positions mean the same token, so
   q = row + len_kv - len_q, which begins below 0 if there are more queries than keys. */
enum formula_name {
    FORMULA_B,        /* batch index */
    FORMULA_H,        /* query head */
    FORMULA_HK,       /* the K/V head that h uses */
    FORMULA_Q,        /* position of the query */
    FORMULA_K,        /* position of the key */
    FORMULA_BATCH,    /* sizes: sequences */
    FORMULA_HEADS,    /* query heads */
    FORMULA_KV_HEADS, /* */
    FORMULA_LEN_Q,    /* */
    FORMULA_LEN_KV,   /* */
    FORMULA_Q_FIRST,  /* corners of a tile, inclusive: only in results of formula_tile and formula_keys */
    FORMULA_Q_LAST,   /* */
    FORMULA_K_FIRST,  /* */
    FORMULA_K_LAST,   /* */
    FORMULA_NAMES
};

/* Limits of sizes and scalars; formula_fits checks them. Within them every integer that a formula computes is exact. */
enum {
    FORMULA_LENGTH = 1 << 28, /* len_q, len_kv: at most */
    FORMULA_BATCHES = 1 << 24,
    FORMULA_HEAD_COUNT = 1 << 16,
    FORMULA_SCALAR = (1 << 30) - 1, /* an integer parameter: -FORMULA_SCALAR .. FORMULA_SCALAR */
    FORMULA_DIMS = 4,               /* of a tensor */
    FORMULA_PARAMS = 16,
    FORMULA_PARAM_NAME = 32, /* bytes with the final NUL */
    FORMULA_TEXT = 4096,     /* bytes of one formula */
    FORMULA_NODES = 512,     /* parts, after named masks and scores are expanded */
    FORMULA_DEPTH = 128
};

/* formula_type: the type of a value. formula_storage: the declared element type of a parameter. */
enum formula_type { FORMULA_BOOL, FORMULA_INT, FORMULA_REAL };

enum formula_storage {
    FORMULA_STORE_BOOL, /* "bool": a byte, nonzero is true */
    FORMULA_STORE_INT,  /* "int": 32 bits */
    FORMULA_STORE_FP32, /* "float" or "fp32" */
    FORMULA_STORE_FP16, /* "fp16" */
    FORMULA_STORE_BF16, /* "bf16" */
    FORMULA_STORAGES
};

struct formula;

struct formula_param {
    char name[FORMULA_PARAM_NAME];
    enum formula_storage storage;
    enum formula_type type;            /* of the value in a formula */
    int dims;                          /* 0 = a scalar, else a tensor of this rank */
    struct formula *dim[FORMULA_DIMS]; /* its shape: integers over sizes and the scalars declared before it; owned */
};

/* The declared parameters, in order. All zero = none. */
struct formula_scope {
    int count;
    struct formula_param param[FORMULA_PARAMS];
};

/* Declares `name` as `type`: "int", "float", "bool", "float[heads]", "int[batch, len_kv]",
   "fp16[heads, 2 * window + 1]". False after an error, which is in the diag. Formulas parsed before a declaration stay
   valid. */
bool formula_declare(struct formula_scope *scope, struct place name_place, const char *name, struct place type_place,
                     const char *type, struct diag *diag);
void formula_scope_free(struct formula_scope *scope);                        /* leaves an empty, reusable scope */
int formula_param_find(const struct formula_scope *scope, const char *name); /* -1 = none */

/* Prints "window: int, slope: float[heads]": canonical text of the declarations whose bit is set in `params`. */
void formula_print_params(const struct formula_scope *scope, unsigned params, struct text *text);

/* --- text to tree ---------------------------------------------------------------------------------------------- */

enum formula_kind {
    FORMULA_MASK,  /* boolean: true = the query sees the key */
    FORMULA_SCORE, /* real: replaces the scaled score s */
    FORMULA_SIZE   /* integer over sizes and scalars: a dimension of a tensor */
};

/* Parses and checks all of `text`, which begins at `place`. Returns null after an error, which is in the diag. The diag
   may also get a note, without an error, about a name of an earlier version (renamed.def). The text is copied;
   place.input is borrowed for messages only. */
struct formula *formula_parse(enum formula_kind kind, struct place place, const char *text, size_t size,
                              const struct formula_scope *scope, struct diag *diag);
void formula_free(struct formula *formula); /* accepts null */

/* --- what it says ---------------------------------------------------------------------------------------------- */

enum formula_type formula_type(const struct formula *formula);
unsigned formula_params(const struct formula *formula); /* bit i set: it names parameter i of its scope */
unsigned formula_names(const struct formula *formula);  /* bit FORMULA_... set: it uses this name */
bool formula_uses_score(const struct formula *formula); /* true if it uses s */

/* True for a mask that is true everywhere and for the score s: they cost nothing. */
bool formula_is_none(const struct formula *formula);

/* Returns the word in formulas.def that means exactly this formula, or null: "causal" for k <= q. Considers only
   entries without parameters. */
const char *formula_word(const struct formula *formula);

/* Prints the canonical text: named entries expanded, no unnecessary blanks or brackets, `a > b` as `b < a`. Parsing it
   in the same scope gives the same tree and therefore the same text. */
void formula_print(const struct formula *formula, struct text *text);

/* score = factor * s + rest, or cap * tanh(factor * s) + rest. cap, factor and slope are the same for all queries and
   keys of a head; rest grows by `slope` from key to key. All are formulas over (b, h, q, k), owned. */
struct formula_fold {
    struct formula *cap;                   /* null without a tanh */
    struct formula *factor, *rest, *slope; /* null if the score does not have this form */
    bool by_distance;                      /* rest is slope * (k - q) */
};
bool formula_fold_score(const struct formula *score, struct formula_fold *fold); /* false: memory ran out */
void formula_fold_free(struct formula_fold *fold);

/* Returns d score / d s, for the backward pass, as a new formula that the caller owns. At a step or a corner it is the
   slope of one side. Null if memory ran out or the formula would be too long. */
struct formula *formula_slope(const struct formula *score);

bool formula_is_one(const struct formula *formula); /* true if it is just the number 1.0 */

/* True if this integer grows by the same *step from each query to the next. */
bool formula_steps_by_query(const struct formula *formula, int64_t *step);

/* A float that a score reads, a scalar or an element of a tensor, and the derivative of the score by it. */
struct formula_read {
    int param;
    int indices;                         /* 0 for a scalar */
    struct formula *index[FORMULA_DIMS]; /* of the element, integers over (b, h, q, k) */
    struct formula *slope;               /* d score / d (this float), over (b, h, q, k, s); as formula_slope */
    bool of_head;                        /* all queries and keys of a head read the same elements of this parameter */
};
enum { FORMULA_READS = 32 };
struct formula_reads {
    int count;
    struct formula_read read[FORMULA_READS]; /* formulas owned */
};

/* Finds the reads of the parameters in the set (bit i = parameter i) by which the score has a slope; operands of
   comparisons have none. False if memory ran out, a slope is too long or there are too many reads. Free them in any
   case. */
bool formula_reads_find(const struct formula *score, unsigned params, struct formula_reads *reads);

/* Which pairs of a query and a key may read the same element. Only of elements that are added to the score, in rows of
   keys, more is known than that any pairs may. */
enum formula_sharing {
    FORMULA_SHARED,   /* any */
    FORMULA_OF_HEAD,  /* those of the same query, key and head in different batches */
    FORMULA_OF_BATCH, /* none */
};
enum formula_sharing formula_reads_sharing(const struct formula_reads *reads); /* shared if there are several reads */
void formula_reads_free(struct formula_reads *reads);

/* --- named masks and scores ------------------------------------------------------------------------------------- */

struct formula_entry { /* one row of formulas.def */
    enum formula_kind kind;
    const char *name;
    const char *params; /* "left: int, right: int", or "" */
    const char *text;   /* in the language itself */
    const char *about;
};
extern const struct formula_entry formula_table[];
extern const int formula_table_count;

/* --- as CUDA --------------------------------------------------------------------------------------------------- */

enum formula_access { FORMULA_AT, FORMULA_LEAST, FORMULA_MOST };

/* How names and parameters are written. All zero = b, h, q, ...; p.NAME for scalars; NAME_at(p, i, j) for tensors, and
   NAME_least(p, i_first, i_last, j_first, j_last), NAME_most(...) for bounds over a box of indices. */
struct formula_spelling {
    const char *name[FORMULA_NAMES];
    const char *score; /* of s */
    int indent;        /* a condition too long for its line continues in this column, one line per part; 0 = one line */
    bool eager; /* `and` and `or` evaluate both sides: where neighbours differ, a branch costs more than a comparison */
    void *context;
    /* Appends a scalar (access FORMULA_AT, no indices), an element, or a bound over a box. `index` holds printed
       integer expressions that need no brackets between commas: dims of them for FORMULA_AT, else dims pairs (first,
       last). */
    void (*param)(void *context, const struct formula_param *param, enum formula_access access,
                  const char *const *index, struct text *out);
};

/* Prints a C++ expression of type bool, int or long long, or float. It calls the functions of formula_print_helpers. */
void formula_print_cuda(const struct formula *formula, const struct formula_spelling *spelling, struct text *text);

/* True if that expression is a long long. */
bool formula_is_wide(const struct formula *formula);

/* Prints the definitions of functions that these formulas call and CUDA lacks, each once; nothing if there are none. */
void formula_print_helpers(const struct formula *const *formulas, int count, struct text *text);

/* --- as a value ------------------------------------------------------------------------------------------------ */

union formula_value {
    int64_t integer; /* of bool and int */
    double real;
};

struct formula_env {
    int64_t name[FORMULA_NAMES];
    double score;                      /* s */
    const union formula_value *scalar; /* scalar[i]: parameter i; entries of tensors are ignored */
    void *context;
    /* Returns an element of a tensor (index: dims of them), or a bound over a box (index: dims pairs (first, last)). A
       bound may be wider than necessary. Indices are as the formula computes them; formula_check_indices says
       beforehand whether they stay within the tensor. */
    union formula_value (*tensor)(void *context, int param, enum formula_access access, const int64_t *index);
};

bool formula_mask(const struct formula *mask, const struct formula_env *env);
double formula_score(const struct formula *score, const struct formula_env *env);
int64_t formula_integer(const struct formula *formula, const struct formula_env *env);

/* --- at a launch: sizes are known ------------------------------------------------------------------------------ */

enum { FORMULA_MESSAGE = 256 };

/* True if sizes (env->name[FORMULA_BATCH .. FORMULA_LEN_KV]) and scalars are within the limits above. */
bool formula_fits(const struct formula_scope *scope, const struct formula_env *env, char message[FORMULA_MESSAGE]);

/* Returns the declared size of dimension `dim` of parameter `param`. */
int64_t formula_dim(const struct formula_scope *scope, int param, int dim, const struct formula_env *env);

/* True if all tensor indices provably stay within the declared shapes for all b, h, q, k within the sizes. Otherwise
   the message has the index, its range and the size; the expression then needs min and max. Only for results of
   formula_parse; allocates nothing unless it fails. */
bool formula_check_indices(const struct formula *formula, const struct formula_env *env, char message[FORMULA_MESSAGE]);

/* --- tiles ------------------------------------------------------------------------------------------------------ */

/* Makes two masks over q_first, q_last, k_first, k_last instead of q and k:
     *some  false: no pair of the tile is seen; the tile need not be loaded
     *all   true: every pair is seen; the mask need not be evaluated
   Both are safe for any values, and exact if each position occurs once in each comparison. The caller owns them.
   False if memory ran out. */
bool formula_tile(const struct formula *mask, struct formula **some, struct formula **all);

enum formula_class { FORMULA_EMPTY, FORMULA_PARTIAL, FORMULA_FULL };

/* The keys that the queries q_first..q_last see: nonnegative integers over those two, with the ends within 0..len_kv.
     outside [first, end)            no query sees a key
     inside  [full_first, full_end)  every query sees every key; empty if full_end <= full_first
   first and full_first may exceed len_kv, up to FORMULA_FAR. If `exact`, at least one query sees each key in [first,
   end), so no tile there is empty and none needs to be classified. If `exact_full`, no key outside the full range is
   seen by all queries. */
enum { FORMULA_FAR = 3 << 29 }; /* tiles can be counted from there in 32 bits */
struct formula_keys {
    struct formula *first, *end;
    struct formula *full_first, *full_end;
    bool exact, exact_full;
};

/* Computes the closed form of the comparisons that are affine in q and k; the others count as "perhaps". False if
   memory ran out. The caller frees the keys, also after failure. */
bool formula_keys(const struct formula *mask, struct formula_keys *keys);
void formula_keys_free(struct formula_keys *keys);

#endif
