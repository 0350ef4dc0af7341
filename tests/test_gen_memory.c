/* The generator when memory runs out: the first, second, third, ... allocation fails. Each time there must be an error,
   never a crash or an incomplete source. The build wraps the allocators (tests/CMakeLists.txt). */
#include "formula.h"
#include "helper_template.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
char *__real_strdup(const char *s);
char *__real_strndup(const char *s, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_strdup(const char *s);
char *__wrap_strndup(const char *s, size_t size);

static long left = -1; /* allocations that still succeed; negative = all */
static bool failed;

static bool deny(void) {
    bool now = left >= 0 && left-- == 0;
    failed |= now;
    return now;
}

void *__wrap_malloc(size_t size) { return deny() ? NULL : __real_malloc(size); }
void *__wrap_calloc(size_t count, size_t size) { return deny() ? NULL : __real_calloc(count, size); }
void *__wrap_realloc(void *old, size_t size) { return deny() ? NULL : __real_realloc(old, size); }
char *__wrap_strdup(const char *s) { return deny() ? NULL : __real_strdup(s); }
char *__wrap_strndup(const char *s, size_t size) { return deny() ? NULL : __real_strndup(s, size); }

static const char templates[] = "//$ default block_m = 8\n"
                                "//$ let a = 2 * block_m\n"
                                "//$ launch kernel grid (len_q + block_m - 1) / block_m block 32 shared 4 * a\n"
                                "//$ workspace 4 * len_q\n"
                                "//$ for t in [q, k]\nint $t;\n//$ end\n"
                                "//$ include \"p\" if mask == none else \"$mask_tiles\" if mask_tiles == bitmap\n"
                                "int z; //$ if a == 15\nint z; //$ else\n"
                                "//$ if mask == causal\n//$ elif mask == none\n//$ end\n"
                                "int x = A + BLOCK_M;\n"
                                "@ p\nint y;\n"
                                "@ bitmap\n";

/* Runs all stages once. False if one of them reported an error. */
static bool generate(struct text *output, struct diag *diag) {
    struct template_text text = {templates, sizeof templates - 1};
    struct template_set *set = template_text_open(&text, diag);
    struct knobs knobs = template_text_knobs();
    struct variant variant;
    struct source source;
    if (!set)
        return false;
    bool good = variant_complete(set, &knobs, true, &variant);
    cr_assert(good, "%s", variant.reason); /* allocates nothing */
    good = source_expand(set, &variant, "spec.yaml", &source, diag);
    if (good) {
        cr_assert_eq(source.origin[source.lines - 1].line, 14);
        text_append(output, text_string(&source.text), source.text.size);
    }
    source_free(&source);
    template_set_close(set);
    return good;
}

Test(gen_memory, every_allocation_may_fail_once) {
    struct text whole = {0};
    struct diag diag = {0};
    int failures = 0;
    cr_assert(generate(&whole, &diag), "%s", text_string(&diag.text));
    for (long count = 0;; count++) {
        struct text output = {0};
        failed = false;
        left = count;
        bool good = generate(&output, &diag);
        left = -1;
        failures += failed;
        cr_assert(good || diag.errors > 0, "allocation %ld", count);
        cr_assert(!good || output.failed || strcmp(text_string(&output), text_string(&whole)) == 0, "allocation %ld",
                  count);
        diag_free(&diag);
        text_free(&output);
        if (!failed)
            break;
    }
    cr_assert_gt(failures, 50);
    text_free(&whole);
}

/* --- formulas */

static const char mask_text[] =
    "sliding_window(n, 3) and (ids[b, k % 7] == ids[b, q % 7] or abs(q - k) < 2) and document(ids)";
static const char score_text[] = "softcap(30) then s * 2 + slopes[h] * (k - q) then s + slopes[min(h, 3)]";

static union formula_value no_element(void *context, int param, enum formula_access access, const int64_t *index) {
    (void)context, (void)param, (void)access, (void)index;
    return (union formula_value){0};
}

static bool print_mask(const struct formula *mask, const struct formula_env *env, struct text *output) {
    struct formula *some = NULL, *all = NULL;
    struct formula_keys keys = {0};
    char message[FORMULA_MESSAGE] = "";
    bool good = formula_tile(mask, &some, &all) && formula_keys(mask, &keys);
    const struct formula *const made[] = {mask, some, all, keys.first, keys.end, keys.full_first, keys.full_end};
    for (int i = 0; good && i < 7; i++)
        formula_print_cuda(made[i], NULL, output);
    if (good)
        formula_print_helpers(made, 7, output);
    long before = left;
    left = 0; /* a launch checks indices and may not allocate */
    cr_assert(formula_check_indices(mask, env, message), "%s", message);
    left = before;
    formula_free(some);
    formula_free(all);
    formula_keys_free(&keys);
    return good;
}

static bool make_formulas(struct text *output, struct diag *diag) {
    struct formula_scope scope = {0};
    struct place nowhere = {0};
    const union formula_value scalars[3] = {{.integer = 4}};
    const struct formula_env env = {.name = {[FORMULA_BATCH] = 1,
                                             [FORMULA_HEADS] = 4,
                                             [FORMULA_KV_HEADS] = 4,
                                             [FORMULA_LEN_Q] = 9,
                                             [FORMULA_LEN_KV] = 9},
                                    .scalar = scalars,
                                    .tensor = no_element};
    struct formula *mask = NULL, *score = NULL;
    struct formula_fold fold;
    bool good = formula_declare(&scope, nowhere, "n", nowhere, "int", diag) &&
                formula_declare(&scope, nowhere, "ids", nowhere, "int[batch, len_kv]", diag) &&
                formula_declare(&scope, nowhere, "slopes", nowhere, "float[heads + 2 * n]", diag) &&
                (mask = formula_parse(FORMULA_MASK, nowhere, mask_text, sizeof mask_text - 1, &scope, diag)) &&
                (score = formula_parse(FORMULA_SCORE, nowhere, score_text, sizeof score_text - 1, &scope, diag));
    cr_assert_eq(good, diag->errors == 0);
    if (good) {
        formula_print_params(&scope, 7, output);
        formula_print(score, output);
        good = print_mask(mask, &env, output) && formula_fold_score(score, &fold);
        if (good) {
            cr_assert_not_null(fold.cap);
            formula_fold_free(&fold);
        }
    }
    formula_free(mask);
    formula_free(score);
    formula_scope_free(&scope);
    return good;
}

Test(gen_memory, every_allocation_of_a_formula_may_fail_once) {
    struct text whole = {0};
    struct diag diag = {0};
    int failures = 0;
    cr_assert(make_formulas(&whole, &diag), "%s", text_string(&diag.text));
    for (long count = 0;; count++) {
        struct text output = {0};
        failed = false;
        left = count;
        bool good = make_formulas(&output, &diag);
        left = -1;
        failures += failed;
        cr_assert(!good || output.failed || strcmp(text_string(&output), text_string(&whole)) == 0, "allocation %ld",
                  count);
        diag_free(&diag);
        text_free(&output);
        if (!failed)
            break;
    }
    cr_assert_gt(failures, 100, "%d", failures);
    text_free(&whole);
}
