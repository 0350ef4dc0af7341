/* formula_spelling: how the formulas of a variant write names and parameters. */
#include "formula_code.h"

const char *formula_access_suffix(enum formula_access access) {
    static const char *const suffixes[] = {[FORMULA_AT] = "", [FORMULA_LEAST] = "_least", [FORMULA_MOST] = "_most"};
    return suffixes[access];
}

static int number_of(const struct formula_set *set, const struct formula_param *param) {
    return (int)(param - set->scope.param);
}

static void spell_param(void *context, const struct formula_param *param, enum formula_access access,
                        const char *const *index, struct text *out) {
    static const char *const members[] = {
        [FORMULA_BOOL] = "whole != 0", [FORMULA_INT] = "whole", [FORMULA_REAL] = "real"};
    const struct formula_set *set = context;
    if (param->dims == 0) {
        text_print(out, param->type == FORMULA_BOOL ? "(p.param[%d].%s)" : "p.param[%d].%s", number_of(set, param),
                   members[param->type]);
        return;
    }
    text_print(out, "tensor_%s%s(p", param->name, formula_access_suffix(access));
    for (int i = 0; i < param->dims * (access == FORMULA_AT ? 1 : 2); i++)
        text_print(out, ", %s", index[i]);
    text_print(out, ")");
}

struct formula_spelling formula_code_spelling(const struct formula_set *set) {
    return (struct formula_spelling){
        .name = {[FORMULA_B] = "at.b",
                 [FORMULA_H] = "at.h",
                 [FORMULA_HK] = "at.hk",
                 [FORMULA_Q] = "q",
                 [FORMULA_K] = "k",
                 [FORMULA_BATCH] = "p.batch",
                 [FORMULA_HEADS] = "p.heads",
                 [FORMULA_KV_HEADS] = "p.kv_heads",
                 [FORMULA_LEN_Q] = "p.len_q",
                 [FORMULA_LEN_KV] = "p.len_kv",
                 [FORMULA_Q_FIRST] = "q_first",
                 [FORMULA_Q_LAST] = "q_last",
                 [FORMULA_K_FIRST] = "k_first",
                 [FORMULA_K_LAST] = "k_last"},
        .score = "s",
        .indent = 11, /* after "    return " */
        .context = (void *)(uintptr_t)set,
        .param = spell_param,
    };
}
