/* fuzz_formula: parses arbitrary bytes as a mask and as a score. They must be refused with one message, or give a tree
   whose canonical text parses back to the same tree and from which bounds, key ranges and C++ text can be made. No
   crash, no overflow, in bounded time. */
#include "formula.h"

#include <stdlib.h>
#include <string.h>

static void check(bool good) {
    if (!good)
        abort();
}

static void declare(struct formula_scope *scope) {
    static const char *const params[][2] = {{"n", "int"},         {"w", "bool"},
                                            {"c", "float"},       {"d", "int[batch, len_kv]"},
                                            {"l", "fp16[heads]"}, {"m", "bool[len_kv]"}};
    struct diag diag = {0};
    for (size_t i = 0; i < sizeof params / sizeof *params; i++)
        check(formula_declare(scope, (struct place){0}, params[i][0], (struct place){0}, params[i][1], &diag));
}

static union formula_value element(void *context, int param, enum formula_access access, const int64_t *index) {
    const struct formula_scope *scope = context;
    int64_t value = access == FORMULA_AT ? (index[0] ^ param) & 7 : access == FORMULA_LEAST ? 0 : 7;
    if (scope->param[param].type == FORMULA_REAL)
        return (union formula_value){.real = (double)value};
    return (union formula_value){.integer = scope->param[param].type == FORMULA_BOOL ? value & 1 : value};
}

/* Checks the bounds of one tile by brute force. */
static void check_bounds(const struct formula *mask, struct formula_env *env) {
    struct formula *some, *all;
    struct formula_keys keys;
    bool any = false, every = true;
    check(formula_tile(mask, &some, &all) && formula_keys(mask, &keys));
    int64_t first = formula_integer(keys.first, env), end = formula_integer(keys.end, env);
    int64_t full_first = formula_integer(keys.full_first, env), full_end = formula_integer(keys.full_end, env);
    for (int64_t q = 1; q < 5; q++)
        for (int64_t k = 2; k < 6; k++) {
            env->name[FORMULA_Q] = q;
            env->name[FORMULA_K] = k;
            bool seen = formula_mask(mask, env);
            any |= seen;
            every &= seen;
            check(!seen || (first <= k && k < end));
            check(seen || !(full_first <= k && k < full_end));
        }
    check(formula_mask(some, env) || !any);
    check(!formula_mask(all, env) || every);
    formula_free(some);
    formula_free(all);
    formula_keys_free(&keys);
}

static void use(const struct formula *formula, enum formula_kind kind, const struct formula_scope *scope) {
    static const union formula_value scalars[6] = {{.integer = 3}, {.integer = 1}, {.real = 2.5}};
    struct formula_env env = {.scalar = scalars, .context = (void *)scope, .tensor = element};
    struct text text = {0};
    char message[FORMULA_MESSAGE];
    for (int i = FORMULA_BATCH; i <= FORMULA_LEN_KV; i++)
        env.name[i] = i == FORMULA_LEN_KV ? 9 : 7;
    env.name[FORMULA_Q_FIRST] = 1, env.name[FORMULA_Q_LAST] = 4;
    env.name[FORMULA_K_FIRST] = 2, env.name[FORMULA_K_LAST] = 5;
    formula_print_cuda(formula, NULL, &text);
    formula_print_helpers(&formula, 1, &text);
    formula_check_indices(formula, &env, message);
    formula_word(formula);
    if (kind == FORMULA_MASK)
        check_bounds(formula, &env);
    else
        formula_score(formula, &env);
    struct formula_fold fold;
    if (kind == FORMULA_SCORE && formula_fold_score(formula, &fold)) {
        const unsigned place = 1u << FORMULA_Q | 1u << FORMULA_K;
        check(!fold.factor || (!formula_uses_score(fold.factor) && !(formula_names(fold.factor) & place)));
        check(!fold.factor || (!formula_uses_score(fold.rest) && !(formula_names(fold.slope) & place)));
        formula_fold_free(&fold);
    }
    if (kind == FORMULA_SCORE)
        formula_free(formula_slope(formula));
    check(!text.failed);
    text_free(&text);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    struct formula_scope scope = {0};
    struct input input = {"fuzz", (const char *)data, size};
    declare(&scope);
    for (enum formula_kind kind = FORMULA_MASK; kind <= FORMULA_SCORE; kind++) {
        struct diag diag = {0};
        struct formula *formula = formula_parse(kind, (struct place){&input, 1, 1}, input.text, size, &scope, &diag);
        check(diag.errors == (formula ? 0 : 1));
        if (formula) {
            struct text first = {0}, second = {0};
            use(formula, kind, &scope);
            formula_print(formula, &first);
            struct formula *again =
                formula_parse(kind, (struct place){0}, text_string(&first), first.size, &scope, &diag);
            check(again || first.size > FORMULA_TEXT);
            if (again)
                formula_print(again, &second);
            check(!again || strcmp(text_string(&first), text_string(&second)) == 0);
            text_free(&first);
            text_free(&second);
            formula_free(again);
        }
        formula_free(formula);
        diag_free(&diag);
    }
    formula_scope_free(&scope);
    return 0;
}
