#include "helper_formula.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <string.h>

/* Bounds against brute force: every pair of every tile of small problems. */

static bool sees(const struct formula *mask, struct formula_env *env, int64_t q, int64_t k) {
    env->name[FORMULA_Q] = q;
    env->name[FORMULA_K] = k;
    return formula_mask(mask, env);
}

struct tile_count {
    int tiles, needless; /* needless: bounds say "perhaps" where brute force knows */
};

static void check_tile(const char *text, const struct formula *mask, const struct formula *some,
                       const struct formula *all, struct formula_env *env, struct tile_count *count) {
    int64_t *name = env->name, seen = 0, pairs = 0;
    for (int64_t q = name[FORMULA_Q_FIRST]; q <= name[FORMULA_Q_LAST]; q++)
        for (int64_t k = name[FORMULA_K_FIRST]; k <= name[FORMULA_K_LAST]; k++, pairs++)
            seen += sees(mask, env, q, k);
    bool may = formula_mask(some, env), must = formula_mask(all, env);
    cr_assert(may || seen == 0, "%s: q %d..%d k %d..%d is called empty and is not", text, (int)name[FORMULA_Q_FIRST],
              (int)name[FORMULA_Q_LAST], (int)name[FORMULA_K_FIRST], (int)name[FORMULA_K_LAST]);
    cr_assert(!must || seen == pairs, "%s: q %d..%d k %d..%d is called full and is not", text,
              (int)name[FORMULA_Q_FIRST], (int)name[FORMULA_Q_LAST], (int)name[FORMULA_K_FIRST],
              (int)name[FORMULA_K_LAST]);
    count->tiles++;
    count->needless += (may && seen == 0) || (!must && seen == pairs);
}

static void check_tiles(const char *text, const struct formula_scope *scope, unsigned *seed, struct tile_count *count) {
    struct formula *mask = formula_fixture_parse(FORMULA_MASK, text, scope, false), *some, *all;
    struct formula_fixture fixture;
    if (!mask)
        return;
    cr_assert(formula_tile(mask, &some, &all));
    for (int round = 0; round < 4; round++) {
        formula_fixture_draw(&fixture, scope, seed);
        int64_t *name = fixture.env.name;
        int64_t q_begin = name[FORMULA_LEN_KV] - name[FORMULA_LEN_Q], q_end = name[FORMULA_LEN_KV];
        for (int64_t q = q_begin; q < q_end; q += 3)
            for (int64_t k = 0; k < name[FORMULA_LEN_KV]; k += 4) {
                name[FORMULA_Q_FIRST] = q;
                name[FORMULA_Q_LAST] = q + 2 < q_end ? q + 2 : q_end - 1;
                name[FORMULA_K_FIRST] = k;
                name[FORMULA_K_LAST] = k + 3 < name[FORMULA_LEN_KV] ? k + 3 : name[FORMULA_LEN_KV] - 1;
                check_tile(text, mask, some, all, &fixture.env, count);
            }
    }
    formula_free(mask);
    formula_free(some);
    formula_free(all);
}

Test(formula_bound, no_needed_tile_is_called_empty_and_no_partial_one_full) {
    struct formula_scope scope;
    struct tile_count count = {0};
    formula_fixture_scope(&scope);
    for (unsigned i = 0; i < 3000; i++) {
        struct text text = {0};
        unsigned seed = i;
        formula_draw(i % 5 ? FLAVOR_MASK : FLAVOR_AFFINE, 1 + (int)(i % 4), &seed, &text);
        check_tiles(text_string(&text), &scope, &seed, &count);
        text_free(&text);
    }
    cr_log_info("%d tiles, %d of them with bounds wider than the truth", count.tiles, count.needless);
    cr_assert_gt(count.tiles, 20000);
    cr_assert_lt(count.needless, count.tiles / 4); /* bounds that always say "perhaps" would be safe too */
    formula_scope_free(&scope);
}

Test(formula_bound, tiles_of_plain_masks_are_known_exactly) {
    static const char *const masks[] = {
        "causal",      "sliding_window(4, 2)",          "prefix(3)", "chunked(4)", "k < 5",         "abs(q - k) <= 3",
        "not (k > q)", "seen[q - (len_kv - len_q), k]", "none",      "false",      "doc[b, k] == 3"};
    struct formula_scope scope;
    formula_fixture_scope(&scope);
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        struct tile_count count = {0};
        unsigned seed = (unsigned)i;
        for (int round = 0; round < 20; round++)
            check_tiles(masks[i], &scope, &seed, &count);
        cr_expect_gt(count.tiles, 100);
        /* Bounds do not search a tensor for values between its minimum and maximum. */
        cr_expect(count.needless == 0 || i == 10, "%s: %d of %d tiles", masks[i], count.needless, count.tiles);
    }
    formula_scope_free(&scope);
}

/* --- closed-form ranges of keys */

struct key_count {
    int exact, exact_full, tiles;
};

static void check_keys_of_tile(const char *text, const struct formula *mask, const struct formula_keys *keys,
                               struct formula_env *env) {
    int64_t *name = env->name;
    int64_t first = formula_integer(keys->first, env), end = formula_integer(keys->end, env);
    int64_t full_first = formula_integer(keys->full_first, env), full_end = formula_integer(keys->full_end, env);
    cr_assert(first >= 0 && first <= FORMULA_FAR && end >= 0 && end <= name[FORMULA_LEN_KV],
              "%s: keys from %" PRId64 " to %" PRId64, text, first, end);
    cr_assert(full_first >= 0 && full_first <= FORMULA_FAR && full_end >= 0 && full_end <= name[FORMULA_LEN_KV],
              "%s: full from %" PRId64 " to %" PRId64, text, full_first, full_end);
    for (int64_t k = 0; k < name[FORMULA_LEN_KV]; k++) {
        bool some = false, all = true;
        for (int64_t q = name[FORMULA_Q_FIRST]; q <= name[FORMULA_Q_LAST]; q++) {
            bool seen = sees(mask, env, q, k);
            some |= seen;
            all &= seen;
        }
        bool within = first <= k && k < end, full = full_first <= k && k < full_end;
        cr_assert(within || !some, "%s: key %d is needed, the range is [%d, %d)", text, (int)k, (int)first, (int)end);
        cr_assert(!full || all, "%s: key %d is not seen by all, the full range is [%d, %d)", text, (int)k,
                  (int)full_first, (int)full_end);
        cr_assert(!keys->exact || within == some, "%s: key %d is not needed, the range is [%d, %d)", text, (int)k,
                  (int)first, (int)end);
        cr_assert(!keys->exact_full || full == all, "%s: key %d is seen by all, the full range is [%d, %d)", text,
                  (int)k, (int)full_first, (int)full_end);
    }
}

static void check_keys(const char *text, const struct formula_scope *scope, unsigned *seed, struct key_count *count) {
    struct formula *mask = formula_fixture_parse(FORMULA_MASK, text, scope, false);
    struct formula_fixture fixture;
    struct formula_keys keys;
    if (!mask)
        return;
    cr_assert(formula_keys(mask, &keys));
    for (int round = 0; round < 6; round++) {
        formula_fixture_draw(&fixture, scope, seed);
        int64_t *name = fixture.env.name, q_end = name[FORMULA_LEN_KV];
        for (int64_t q = q_end - name[FORMULA_LEN_Q]; q < q_end; q += 3) {
            name[FORMULA_Q_FIRST] = q;
            name[FORMULA_Q_LAST] = q + 2 < q_end ? q + 2 : q_end - 1;
            check_keys_of_tile(text, mask, &keys, &fixture.env);
            count->tiles++;
        }
    }
    count->exact += keys.exact;
    count->exact_full += keys.exact_full;
    formula_keys_free(&keys);
    formula_free(mask);
}

Test(formula_bound, ranges_of_keys_are_right_for_any_mask) {
    struct formula_scope scope;
    struct key_count count = {0};
    formula_fixture_scope(&scope);
    for (unsigned i = 0; i < 3000; i++) {
        struct text text = {0};
        unsigned seed = 77 * i + 1;
        formula_draw(i % 2 ? FLAVOR_MASK : FLAVOR_AFFINE, 1 + (int)(i % 4), &seed, &text);
        check_keys(text_string(&text), &scope, &seed, &count);
        text_free(&text);
    }
    cr_log_info("%d tiles; %d masks exact, %d of them for full ranges too", count.tiles, count.exact, count.exact_full);
    cr_assert_gt(count.exact, 700); /* affine conjunctions whose q has factor 1 */
    formula_scope_free(&scope);
}

Test(formula_bound, common_masks_need_no_classification) {
    static const char *const masks[] = {
        "causal",         "k <= q and q - k < window", "sliding_window(window, 0)",      "abs(q - k) <= window",
        "prefix(window)", "k < doc[b, 0] and causal",  "not (k > q or q - k >= window)", "0 <= q - k < 7"};
    struct formula_scope scope;
    struct key_count count = {0};
    formula_fixture_scope(&scope);
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        unsigned seed = 5;
        for (int round = 0; round < 10; round++)
            check_keys(masks[i], &scope, &seed, &count);
        cr_expect_eq(count.exact, 10 * (int)(i + 1), "%s is not exact", masks[i]);
    }
    formula_scope_free(&scope);
}

/* The extremes of a parameter and of an element: 2^30 - 1 and 2^31 - 1 and their negatives. */
Test(formula_bound, keys_that_no_int_can_count_to_are_not_looked_for) {
    static const char *const masks[] = {"k >= window * 4",          "k > doc[b, 0]",      "k >= -4 * window",
                                        "k >= doc[b, 0] - window",  "k < window * 4",     "k <= doc[b, 0]",
                                        "k >= window * 4 or k > q", "q - k < -4 * window"};
    struct formula_scope scope;
    formula_fixture_scope(&scope);
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        struct key_count count = {0};
        unsigned seed = 3;
        for (int round = 0; round < 20; round++)
            check_keys(masks[i], &scope, &seed, &count);
        cr_expect_gt(count.tiles, 100);
    }
    formula_scope_free(&scope);
}

/* --- indices */

Test(formula_bound, indices_that_may_leave_their_tensor_are_refused) {
    static const struct {
        const char *mask;
        int64_t len_q, len_kv;
        const char *message; /* part of the message; null = accepted */
    } cases[] = {
        {"doc[b, k] == 1", 8, 8, NULL},
        {"doc[b, q] == doc[b, k]", 8, 8, NULL},
        {"doc[b, q] == doc[b, k]", 9, 8, "index 2 of doc, q, may run from -1 to 7, and that dimension has 8"},
        {"document(doc)", 9, 8, NULL},
        {"doc[b, k + 1] == 1", 8, 8, "k + 1, may run from 1 to 8"},
        {"doc[b, min(k + 1, len_kv - 1)] == 1", 8, 8, NULL},
        {"doc[b, clamp(k - q, 0, 7)] == 1", 8, 8, NULL},
        {"doc[b, doc[b, k]] == 1", 8, 8, "index 2 of doc, doc[b, k], may run from -2147483648 to 2147483647"},
        {"doc[b, clamp(doc[b, k], 0, len_kv - 1)] == 1", 8, 8, NULL},
        {"doc[h, k] == 1", 8, 8, "index 1 of doc, h, may run from 0 to 3"},
        {"seen[q - (len_kv - len_q), k]", 9, 4, NULL},
        {"seen[q, k]", 2, 4, "index 1 of seen, q, may run from 2 to 3"},
        {"doc[b, floor(0.5 * k)] == 1", 8, 8, "floor"},
        {"doc[b, k * 1000000] == 1", 0, 8, NULL}, /* nothing to do, nothing to read */
    };
    struct formula_scope scope;
    struct formula_fixture fixture;
    unsigned seed = 1;
    formula_fixture_scope(&scope);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char message[FORMULA_MESSAGE] = "";
        struct formula *mask = formula_fixture_parse(FORMULA_MASK, cases[i].mask, &scope, true);
        formula_fixture_draw(&fixture, &scope, &seed);
        fixture.env.name[FORMULA_BATCH] = 2;
        fixture.env.name[FORMULA_HEADS] = 4;
        fixture.env.name[FORMULA_LEN_Q] = cases[i].len_q;
        fixture.env.name[FORMULA_LEN_KV] = cases[i].len_kv;
        bool good = formula_check_indices(mask, &fixture.env, message);
        cr_expect_eq(good, cases[i].message == NULL, "%s: %s", cases[i].mask, message);
        if (cases[i].message)
            cr_expect(strstr(message, cases[i].message), "%s: %s", cases[i].mask, message);
        formula_free(mask);
    }
    formula_scope_free(&scope);
}

Test(formula_bound, sizes_and_scalars_beyond_the_limits_are_refused) {
    struct formula_scope scope;
    struct formula_fixture fixture;
    char message[FORMULA_MESSAGE] = "";
    unsigned seed = 1;
    formula_fixture_scope(&scope);
    formula_fixture_draw(&fixture, &scope, &seed);
    cr_assert(formula_fits(&scope, &fixture.env, message));
    fixture.scalar[0].integer = (int64_t)FORMULA_SCALAR + 1;
    cr_assert(!formula_fits(&scope, &fixture.env, message));
    cr_assert(strstr(message, "parameter window is 1073741824"), "%s", message);
    fixture.scalar[0].integer = 0;
    fixture.env.name[FORMULA_LEN_KV] = (int64_t)FORMULA_LENGTH + 1;
    cr_assert(!formula_fits(&scope, &fixture.env, message));
    cr_assert(strstr(message, "len_kv is 268435457"), "%s", message);
    formula_scope_free(&scope);
}
