/* facts: what templates know about a variant in addition to its knobs and their own lets (facts.def). */
#ifndef ATTILE_FACTS_H
#define ATTILE_FACTS_H

#include "expr.h"

enum fact_id {
#define FACT_INT(name, about)         FACT_##name,
#define FACT_WORD(name, words, about) FACT_##name,
#include "facts.def"
    FACT_COUNT
};

/* mask_tiles_bitmap, score_form_tanh, ...: words are numbered as listed. */
#define WORD(fact, word) fact##_##word,
#define FACT_INT(name, about)
#define FACT_WORD(name, words, about) enum { words(WORD) FACT_##name##_WORDS };
#include "facts.def"
#undef WORD

struct fact_info {
    struct expr_name name;
    const char *about;
};
extern const struct fact_info fact_table[FACT_COUNT];

enum { FACT_REASON = 96 };

/* Finds all facts of complete problem knobs. False if they cannot be known; then `reason` says why. */
bool facts_find(const struct knobs *knobs, struct expr_slot fact[FACT_COUNT], char reason[FACT_REASON]);

#endif
