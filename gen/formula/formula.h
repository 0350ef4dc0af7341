/* formula: the language of masks and scores, from one line of text to everything that is made of it.

       formula_parse        text      -> checked tree; named masks and scores (formulas.def) are expanded
       formula_print        tree      -> canonical text: what identity, names and cache keys are made of
       formula_print_cuda   tree      -> a C++ expression
       formula_mask, _score tree      -> its value at one (b, h, q, k), in exact integers and double precision
       formula_tile         mask      -> two formulas over a tile's corners: may some pair be seen, are all of them
       formula_keys         mask      -> four formulas over a Q tile: which keys it can see, and sees for sure

   What bounds a tile is again a formula: printed by the same printer, evaluated by the same evaluator. That is the
   whole interval arithmetic; there is no second one for the device.

   Integers are exact. Every node knows a range that its value cannot leave, from FORMULA_LENGTH and FORMULA_SCALAR; what
   could leave 64 bits is refused where it is read, and CUDA gets 64-bit arithmetic just where 32 bits are too few.
   Every expression has a value: x // 0 is 0, x % 0 is x, shift counts are limited to 0..63. docs/expressions.md.

   A formula is immutable once made and may be shared between threads. It borrows its scope, which must outlive it. */
#ifndef ATTILE_FORMULA_H
#define ATTILE_FORMULA_H

#include "diag.h"

#include <stdint.h>

/* --- what a formula may refer to ------------------------------------------------------------------------------- */

/* The names of the language, all integers but s. Positions are absolute: q counts so that equal positions mean the same
   token, q = row + len_kv - len_q, and so begins below 0 when there are more queries than keys. */
enum formula_name {
    FORMULA_B,        /* batch index */
    FORMULA_H,        /* query head */
    FORMULA_HK,       /* head of keys and values that h shares */
    FORMULA_Q,        /* position of the query */
    FORMULA_K,        /* position of the key */
    FORMULA_BATCH,    /* how many */
    FORMULA_HEADS,    /* query heads */
    FORMULA_KV_HEADS, /* */
    FORMULA_LEN_Q,    /* */
    FORMULA_LEN_KV,   /* */
    FORMULA_Q_FIRST,  /* corners of a tile, all within it: only in what formula_tile and formula_keys make */
    FORMULA_Q_LAST,   /* */
    FORMULA_K_FIRST,  /* */
    FORMULA_K_LAST,   /* */
    FORMULA_NAMES
};

/* How far sizes and scalars may go; formula_fits checks. Within them every integer that a formula computes is exact. */
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

/* formula_type: what a value is. formula_storage: what a parameter is made of, as declared. */
enum formula_type { FORMULA_BOOL, FORMULA_INT, FORMULA_REAL };

enum formula_storage {
    FORMULA_STORE_BOOL, /* "bool": a byte, anything but 0 is true */
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

/* Declare `name` as `type`: "int", "float", "bool", "float[heads]", "int[batch, len_kv]", "fp16[heads, 2 * window + 1]".
   False after an error, which is in the diag. Formulas parsed before a declaration stay valid. */
bool formula_declare(struct formula_scope *scope, struct place name_place, const char *name, struct place type_place,
                     const char *type, struct diag *diag);
void formula_scope_free(struct formula_scope *scope);                        /* leaves an empty, reusable scope */
int formula_param_find(const struct formula_scope *scope, const char *name); /* -1 = none */

/* "window: int, slope: float[heads]": canonical text of the declarations whose bit is set in `params`. */
void formula_print_params(const struct formula_scope *scope, unsigned params, struct text *text);

/* --- text to tree ---------------------------------------------------------------------------------------------- */

enum formula_kind {
    FORMULA_MASK,  /* boolean: true = the query sees the key */
    FORMULA_SCORE, /* real: what becomes of the scaled score s */
    FORMULA_SIZE   /* integer over sizes and scalars: a dimension of a tensor */
};

/* Parse and check all of `text`, which begins at `place`. Null after an error, which is in the diag. The diag may also get
   a note, without an error, about a name of an earlier version (renamed.def). The text is copied; place.input is borrowed for
   messages only. */
struct formula *formula_parse(enum formula_kind kind, struct place place, const char *text, size_t size,
                              const struct formula_scope *scope, struct diag *diag);
void formula_free(struct formula *formula); /* accepts null */

/* --- what it says ---------------------------------------------------------------------------------------------- */

enum formula_type formula_type(const struct formula *formula);
unsigned formula_params(const struct formula *formula); /* bit i set: it names parameter i of its scope */
unsigned formula_names(const struct formula *formula);  /* bit FORMULA_...: it names this */
bool formula_uses_score(const struct formula *formula); /* it names s */

/* A mask that is true everywhere, and a score that is s: they cost nothing. */
bool formula_is_none(const struct formula *formula);

/* The word in formulas.def that says exactly this, or null: "causal" for k <= q. Only entries without parameters. */
const char *formula_word(const struct formula *formula);

/* Canonical text: named entries expanded, no blank or bracket that is not needed, `a > b` as `b < a`. Parsing it in the
   same scope gives the same tree and so the same text. */
void formula_print(const struct formula *formula, struct text *text);

/* score = factor * s + rest, or cap * tanh(factor * s) + rest, where cap and factor are the same for all queries and keys
   of a head, and rest grows by `slope` from key to key, the same for all of them too. All formulas over (b, h, q, k), owned. */
struct formula_fold {
    struct formula *cap;                   /* null without a tanh */
    struct formula *factor, *rest, *slope; /* null when the score is no such thing */
    bool by_distance;                      /* rest is slope * (k - q) */
};
bool formula_fold_score(const struct formula *score, struct formula_fold *fold); /* false: memory ran out */
void formula_fold_free(struct formula_fold *fold);

/* d score / d s, for the backward pass: a new formula, owned by the caller. At a step or a corner it is the slope of one
   side. Null when memory ran out or it would be too long. */
struct formula *formula_slope(const struct formula *score);

bool formula_is_one(const struct formula *formula); /* the number 1.0, and nothing else */

/* Does this integer grow by the same *step from each query to the next? */
bool formula_steps_by_query(const struct formula *formula, int64_t *step);

/* A float that a score reads, a number or an element of a tensor, and what the score changes by with it. */
struct formula_read {
    int param;
    int indices;                         /* 0 of a number */
    struct formula *index[FORMULA_DIMS]; /* of the element, integers over (b, h, q, k) */
    struct formula *slope;               /* d score / d what is read, over (b, h, q, k, s); as formula_slope */
    bool of_head; /* all that is read of this parameter is the same for all queries and keys of a head */
};
enum { FORMULA_READS = 32 };
struct formula_reads {
    int count;
    struct formula_read read[FORMULA_READS]; /* formulas owned */
};

/* The reads of the parameters of the set (bit i = parameter i) that the score changes with: what it compares has no slope.
   False when memory ran out, or slopes or reads would be too many. Free them in any case. */
bool formula_reads_find(const struct formula *score, unsigned params, struct formula_reads *reads);
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
    int indent; /* a condition too long for its line goes on in this column, a line for each part; 0 = one line */
    bool eager; /* `and` and `or` look at both sides: where neighbours differ, a branch costs more than a comparison */
    void *context;
    /* Append a scalar (access FORMULA_AT, no indices), an element, or a bound over a box. `index` holds printed integer
       expressions that need no brackets between commas: dims of them for FORMULA_AT, else dims pairs first, last. */
    void (*param)(void *context, const struct formula_param *param, enum formula_access access,
                  const char *const *index, struct text *out);
};

/* A C++ expression of type bool, int or long long, or float. Its functions are those of formula_print_helpers. */
void formula_print_cuda(const struct formula *formula, const struct formula_spelling *spelling, struct text *text);

/* Is that expression a long long? */
bool formula_is_wide(const struct formula *formula);

/* Definitions of the functions that these formulas call and CUDA has not, each once; nothing when there are none. */
void formula_print_helpers(const struct formula *const *formulas, int count, struct text *text);

/* --- as a value ------------------------------------------------------------------------------------------------ */

union formula_value {
    int64_t integer; /* of bool and int */
    double real;
};

struct formula_env {
    int64_t name[FORMULA_NAMES];
    double score;                      /* s */
    const union formula_value *scalar; /* scalar[i]: parameter i; those of tensors are not looked at */
    void *context;
    /* An element of a tensor (index: dims of them), or a bound over a box (index: dims pairs first, last). A bound may
       be wider than the truth. Indices are those that the formula computes; formula_check_indices says beforehand
       whether they stay within the tensor. */
    union formula_value (*tensor)(void *context, int param, enum formula_access access, const int64_t *index);
};

bool formula_mask(const struct formula *mask, const struct formula_env *env);
double formula_score(const struct formula *score, const struct formula_env *env);
int64_t formula_integer(const struct formula *formula, const struct formula_env *env);

/* --- at a launch: sizes are known ------------------------------------------------------------------------------ */

enum { FORMULA_MESSAGE = 256 };

/* Are sizes (env->name[FORMULA_BATCH .. FORMULA_LEN_KV]) and scalars within the limits above? */
bool formula_fits(const struct formula_scope *scope, const struct formula_env *env, char message[FORMULA_MESSAGE]);

/* The size of dimension `dim` of parameter `param`, as declared. */
int64_t formula_dim(const struct formula_scope *scope, int param, int dim, const struct formula_env *env);

/* Do all tensor indices stay within the declared shapes, whatever b, h, q, k within the sizes? What cannot be proven is
   refused, with the index, its range and the size in the message: then the expression has to say min and max. For what
   formula_parse made; allocates nothing unless something is wrong. */
bool formula_check_indices(const struct formula *formula, const struct formula_env *env, char message[FORMULA_MESSAGE]);

/* --- tiles ------------------------------------------------------------------------------------------------------ */

/* Two masks over q_first, q_last, k_first, k_last instead of q and k:
     *some  false: no pair of the tile is seen; it need not be loaded
     *all   true: every pair is seen; the mask need not be evaluated
   Both are safe for any values, and exact where each position occurs once in each comparison. Owned by the caller.
   False when memory ran out. */
bool formula_tile(const struct formula *mask, struct formula **some, struct formula **all);

enum formula_class { FORMULA_EMPTY, FORMULA_PARTIAL, FORMULA_FULL };

/* What the queries q_first..q_last see: integers over those two, 0 or more, the ends within 0..len_kv.
     outside [first, end)            nothing is seen by any of them
     inside  [full_first, full_end)  everything is seen by all of them; empty when full_end <= full_first
   first and full_first may be beyond len_kv, up to FORMULA_FAR. When `exact`, each key in [first, end) is seen by one of
   them at least, so that no tile there is empty and none needs to be classified; when `exact_full` no key outside the
   full range is seen by all of them. */
enum { FORMULA_FAR = 3 << 29 }; /* tiles can be counted from there in 32 bits */
struct formula_keys {
    struct formula *first, *end;
    struct formula *full_first, *full_end;
    bool exact, exact_full;
};

/* Closed form of the comparisons that are affine in q and k; the others are taken as "perhaps". False when memory ran
   out. The caller frees the keys, also after failure. */
bool formula_keys(const struct formula *mask, struct formula_keys *keys);
void formula_keys_free(struct formula_keys *keys);

#endif
