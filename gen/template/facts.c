#include "facts.h"
#include "formula_code.h"

#include <stdio.h>

#define WORD(fact, word) #word,
#define FACT_INT(name, about)
#define FACT_WORD(name, words, about) static const char *const words_of_##name[] = {words(WORD) NULL};
#include "facts.def"
#undef WORD

const struct fact_info fact_table[FACT_COUNT] = {
#define FACT_INT(name, about)         {{#name, {EXPR_INT, NULL}}, about},
#define FACT_WORD(name, words, about) {{#name, {EXPR_WORD, words_of_##name}}, about},
#include "facts.def"
};

static bool find_mask(const struct formula_set *set, int value[FACT_COUNT]) {
    struct formula_keys keys;
    bool good = formula_keys(set->mask, &keys);
    value[FACT_mask_tables] = __builtin_popcount(set->tabled);
    value[FACT_mask_tiles] = keys.exact ? mask_tiles_intervals : mask_tiles_bitmap;
    value[FACT_mask_window] = keys.exact && formula_names(keys.first) >> FORMULA_Q_FIRST & 1;
    value[FACT_mask_lookup] = formula_splits_mask(set)           ? mask_lookup_by_pair
                              : formula_keyed_tensors(set->mask) ? mask_lookup_by_key
                                                                 : mask_lookup_no_lookup;
    formula_keys_free(&keys);
    value[FACT_mask_query_reads] = formula_query_reads(set);
    return good && value[FACT_mask_query_reads] >= 0;
}

static bool find_score(const struct formula_set *set, int value[FACT_COUNT]) {
    struct formula_fold fold;
    bool good = formula_fold_score(set->score, &fold);
    value[FACT_score_form] = fold.cap ? score_form_tanh : fold.factor ? score_form_linear : score_form_general;
    value[FACT_score_rest] = fold.by_distance                             ? score_rest_alibi
                             : formula_names(set->score) >> FORMULA_K & 1 ? score_rest_varying
                                                                          : score_rest_constant;
    value[FACT_score_bias] = formula_has_bias_rows(set) ? score_bias_bias_rows : score_bias_no_bias;
    formula_fold_free(&fold);
    return good;
}

/* Only the backward pass needs the derivative. */
static bool find_derivative(const struct knobs *knobs, const struct formula_set *set, int value[FACT_COUNT]) {
    if (knobs->family != family_attention_backward || !set->score)
        return true;
    struct formula *derivative = formula_slope(set->score);
    value[FACT_score_adds] = derivative && formula_is_one(derivative);
    formula_free(derivative);
    return derivative != NULL;
}

static void find_wants(const struct formula_set *set, int value[FACT_COUNT]) {
    value[FACT_wants_dq] = set->wants.dq;
    value[FACT_wants_dk] = set->wants.dk;
    value[FACT_wants_dv] = set->wants.dv;
    value[FACT_wants_d_sinks] = set->wants.sinks;
    value[FACT_wants_d_params] = __builtin_popcount(set->wants.params);
    for (int i = 0; i < set->reads.count; i++)
        value[set->reads.read[i].of_head ? FACT_head_reads : FACT_pair_reads]++;
    static const int elements[] = {[FORMULA_SHARED] = pair_elements_shared_elements,
                                   [FORMULA_OF_HEAD] = pair_elements_elements_of_head,
                                   [FORMULA_OF_BATCH] = pair_elements_elements_of_batch};
    value[FACT_pair_elements] = elements[formula_reads_sharing(&set->reads)];
}

bool facts_find(const struct knobs *knobs, struct expr_slot fact[FACT_COUNT], char reason[FACT_REASON]) {
    int value[FACT_COUNT] = {[FACT_target_shared_bytes] = target_info(knobs->target)->shared_bytes,
                             [FACT_dependent_launches] = target_starts_dependents(target_info(knobs->target)),
                             [FACT_split_keys] = knobs_split_keys(knobs),
                             [FACT_packs_heads] = knobs->pack_gqa == 1,
                             [FACT_quantised] = knobs_quantised(knobs)};
    struct formula_set set;
    bool good = formula_set_open(&set, knobs);
    snprintf(reason, FACT_REASON, "%s", good ? "out of memory" : set.reason);
    if (good && !find_derivative(knobs, &set, value)) {
        snprintf(reason, FACT_REASON, "the derivative of the score has too many parts");
        good = false;
    }
    find_wants(&set, value);
    good = good && (!set.mask || find_mask(&set, value)) && (!set.score || find_score(&set, value));
    formula_set_close(&set);
    for (int i = 0; i < FACT_COUNT; i++)
        fact[i] = (struct expr_slot){value[i], true};
    return good;
}
