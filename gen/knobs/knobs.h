/* knobs: struct knobs, and queries on the table in knobs.def. */
#ifndef ATTILE_KNOBS_H
#define ATTILE_KNOBS_H

#include "text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* KNOB_FAMILY, KNOB_DTYPE, ...: the rows of the table, in order. Lower case inside so that one spelling serves all. */
enum knob_id {
#define KNOB_WORD(name, ...) KNOB_##name,
#define KNOB_INT(name, ...)  KNOB_##name,
#include "knobs.def"
    KNOB_COUNT
};

/* A set of knobs: bit KNOB_FLAG(id) set for each. */
__extension__ typedef unsigned __int128 knob_flags;
#define KNOB_FLAG(id) ((knob_flags)1 << (id))
#define KNOB_ALL      (~(knob_flags)0)
_Static_assert(KNOB_COUNT <= 128, "knob_flags has a bit for every knob");

static inline bool knob_in(knob_flags set, int id) { return set >> id & 1; }

enum { AUTO = -1 }; /* the value of a knob that is left to the template or to derive.c */

/* family_softmax, dtype_fp16, ...: words are numbered as listed; dtype_AUTO etc. are AUTO. */
#define WORD(knob, word) knob##_##word,
enum { WORDS_FAMILY(WORD) family_AUTO = AUTO };
enum { WORDS_DTYPE(WORD) dtype_AUTO = AUTO };
enum { WORDS_DTYPE_OUT(WORD) dtype_out_AUTO = AUTO };
enum { WORDS_PRECISION(WORD) precision_AUTO = AUTO };
enum { WORDS_MASK(WORD) mask_AUTO = AUTO };
enum { WORDS_SCORE(WORD) score_AUTO = AUTO };
enum { WORDS_WANTS(WORD) wants_AUTO = AUTO };
enum { WORDS_LAYOUT(WORD) layout_AUTO = AUTO };
enum { WORDS_PAGE_TABLE(WORD) page_table_AUTO = AUTO };
enum { WORDS_DTYPE_KV(WORD) dtype_kv_AUTO = AUTO };
enum { WORDS_KV_SCALE(WORD) kv_scale_AUTO = AUTO };
enum { WORDS_ROPE(WORD) rope_AUTO = AUTO };
enum { WORDS_ROPE_FROM(WORD) rope_from_AUTO = AUTO };
enum { WORDS_ALGORITHM(WORD) algorithm_AUTO = AUTO };
enum { WORDS_LOOP_ORDER(WORD) loop_order_AUTO = AUTO };
enum { WORDS_OVERLAP(WORD) overlap_AUTO = AUTO };
enum { WORDS_RESCALE(WORD) rescale_AUTO = AUTO };
enum { WORDS_TILE_ORDER(WORD) tile_order_AUTO = AUTO };
enum { WORDS_SCHEDULER(WORD) scheduler_AUTO = AUTO };
enum { WORDS_STORE(WORD) store_AUTO = AUTO };
enum { WORDS_P_IN(WORD) p_in_AUTO = AUTO };
enum { WORDS_Q_IN(WORD) q_in_AUTO = AUTO };
enum { WORDS_DQ_IN(WORD) dq_in_AUTO = AUTO };
enum { WORDS_TARGET(WORD) target_AUTO = AUTO };
#undef WORD

/* True if the family has masks and scores, and the tensors that they read. */
static inline bool family_is_attention(int family) {
    return family == family_attention_forward || family == family_attention_backward;
}

/* The canonical texts of masks and scores that are expressions (formula.h): equal texts have equal meanings. "" if the
   knob is one of its words. Their size is bounded and they are stored in place, so knobs can be copied like any
   value. */
enum { FORMULAS_TEXT = 1024 };
struct formulas {
    char mask[FORMULAS_TEXT], score[FORMULAS_TEXT];
    char wants[FORMULAS_TEXT];  /* names of gradients: "dq, d_slope" */
    char params[FORMULAS_TEXT]; /* declared launch parameters of both: "window: int, slope: float[heads]" */
};

/* One value for every knob, each an int: a word's number, an integer, or AUTO. */
struct knobs {
#define KNOB_WORD(name, ...) int name;
#define KNOB_INT(name, ...)  int name;
#include "knobs.def"
    struct formulas formulas;
};

enum knob_kind { KNOB_KIND_WORD, KNOB_KIND_INT, KNOB_KIND_FORMULA };
enum knob_group { KNOB_GROUP_TOP, KNOB_GROUP_PROBLEM, KNOB_GROUP_SCHEDULE };

struct knob_info {
    const char *name;
    enum knob_kind kind;
    enum knob_group group;
    int fallback;             /* default value or AUTO */
    const char *prefix;       /* in kernel names */
    const char *const *words; /* null-terminated; null for integers */
    int least, most;          /* for integers */
    bool optional;            /* its default adds nothing: no pinned size, no sinks */
    const char *about;
};

extern const struct knob_info knob_table[KNOB_COUNT];

int knob_find(const char *name, size_t size);               /* enum knob_id, or -1 */
int knob_word(enum knob_id id, const char *s, size_t size); /* number of a word, or -1 */
const char *knob_word_name(enum knob_id id, int value);     /* "auto" for AUTO; "?" when out of range */

static inline int knob_get(const struct knobs *knobs, enum knob_id id) { return ((const int *)knobs)[id]; }
static inline void knob_set(struct knobs *knobs, enum knob_id id, int value) { ((int *)knobs)[id] = value; }

/* True for an optional problem knob (a pinned size, sinks, pages) that adds nothing. */
static inline bool knob_is_open(enum knob_id id, int value) {
    return knob_table[id].group == KNOB_GROUP_PROBLEM && knob_table[id].optional && value == knob_table[id].fallback;
}

/* True if K and V have 8-bit elements. */
static inline bool knobs_quantised(const struct knobs *knobs) { return knobs->dtype_kv >= dtype_kv_e4m3; }

/* True if a Q tile's keys may be split into parts, which a second launch combines. */
static inline bool knobs_split_keys(const struct knobs *knobs) { return knobs->splits != 1 && knobs->splits != AUTO; }

struct knobs knobs_default(void);     /* every knob at its default, AUTO included */
struct knobs knobs_filled(int value); /* every knob at this value, without expressions */

/* The limits of a thread block on a target, a row of targets.def; AUTO means `any`. */
struct target_info {
    const char *name;
    int shared_bytes, threads;
    const char *arch; /* architecture to compile for if no device determines it */
    int first, last;  /* range of compute capabilities, times ten, that run it */
    const char *gpus; /* the same in words */
};
const struct target_info *target_info(int target);

/* True if its kernels can start before the previous launch has ended (programmatic dependent launch). */
static inline bool target_starts_dependents(const struct target_info *target) { return target->first >= 90; }

/* Returns the text of a mask or score that is an expression; null for any other knob or value. */
const char *knob_formula(const struct knobs *knobs, enum knob_id id);

/* True if both have the same value of this knob, including an expression and its params. */
bool knob_same(const struct knobs *a, const struct knobs *b, enum knob_id id);

/* Returns the value of a problem knob, or its meaning if it is left out or the algorithm of these knobs does not use
   it. */
int knob_meant(const struct knobs *knobs, enum knob_id id);

/* True if both belong to one problem, regardless of their schedules. */
bool knobs_same_problem(const struct knobs *a, const struct knobs *b);

/* Prints a value as a user would write it: "causal", "64", "\"k <= q\"". */
void knob_print(const struct knobs *knobs, enum knob_id id, struct text *text);

/* Prints "dtype=bf16 head_dim=96": the knobs of `which` that are not AUTO, as knobs_parse reads them. */
void knobs_print(const struct knobs *knobs, knob_flags which, struct text *text);

#endif
