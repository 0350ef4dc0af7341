#include "gen.h"

#include <criterion/criterion.h>
#include <string.h>

enum { ALL_TARGETS = 1 << target_any | 1 << target_sm_80 | 1 << target_sm_90a };

/* flash uses threads and no target; flash_tiled has lists; the others are absent. */
static const char flash[] = "//$ default threads = 128\n"
                            "//$ tune threads in [32, 64, 96]\n"
                            "//$ require threads % 64 == 0 or threads == 32\n"
                            "//$ launch f grid len_q block threads shared head_dim\n";
static const char tiled[] = "//$ default block_m = 32\n"
                            "//$ default block_n = 16\n"
                            "//$ default overlap = off\n"
                            "//$ tune block_m in [32, 64]\n"
                            "//$ tune overlap in [both, off]\n"
                            "//$ require overlap != off or block_n == 16\n"
                            "//$ if target == any and rescale == lazy\n//$ end\n"
                            "//$ launch q grid len_q block block_m shared head_dim * block_n\n";

static const char *load(void *context, const char *name, size_t *size) {
    const char *text = strcmp(name, "attention_flash.cu") == 0         ? (context ? context : flash)
                       : strcmp(name, "attention_flash_tiled.cu") == 0 ? tiled
                                                                       : NULL;
    *size = text ? strlen(text) : 0;
    return text;
}

static struct template_set *open_set(template_loader *loader) {
    struct diag diag = {0};
    struct template_set *set = template_set_open(loader, NULL, &diag);
    cr_assert_not_null(set, "%s", text_string(&diag.text));
    return set;
}

struct counts {
    int feasible, pruned;
    char first[VARIANT_NAME];
};

static struct counts count(const struct spec *spec, struct template_set *set, unsigned targets) {
    struct counts counts = {0};
    struct space space;
    struct variant variant;
    for (space_open(&space, spec, set, targets); space_next(&space, &variant);) {
        if (variant.feasible && !counts.feasible++)
            strcpy(counts.first, variant.name);
        counts.pruned += !variant.feasible;
    }
    cr_assert_not(space.failed);
    space_close(&space);
    return counts;
}

static struct counts count_text(const char *text, struct template_set *set, unsigned targets) {
    struct diag diag = {0};
    struct spec *spec = spec_from_knobs("<problem>", text, &diag);
    cr_assert_not_null(spec, "%s", text_string(&diag.text));
    struct counts counts = count(spec, set, targets);
    spec_free(spec);
    return counts;
}

Test(space, open_knobs_take_the_template_s_values_and_all_words) {
    struct template_set *set = open_set(load);
    static const struct {
        const char *text;
        unsigned targets;
        int feasible, pruned;
    } cases[] = {
        {"family=attention_forward algorithm=flash", ALL_TARGETS, 2, 1}, /* threads 32, 64; 96 does not hold */
        {"family=attention_forward algorithm=flash threads=96", ALL_TARGETS, 0, 1},
        /* block_m 2 x overlap 2 x rescale 3 x targets 3 */
        {"family=attention_forward algorithm=flash_tiled", ALL_TARGETS, 36, 0},
        {"family=attention_forward algorithm=flash_tiled", 1 << target_sm_80, 12, 0},
        {"family=attention_forward algorithm=flash_tiled target=any", ALL_TARGETS, 12, 0},
        {"family=attention_forward algorithm=flash_tiled block_n=24 target=any", ALL_TARGETS, 6, 6},
        {"family=attention_forward algorithm=flash_tiled rescale=lazy overlap=off", ALL_TARGETS, 6, 0},
        {"family=attention_forward", ALL_TARGETS, 38, 1}, /* both algorithms; loop_order is open as well */
        {"family=attention_forward head_dim=32 target=sm_80", 0, 14, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct counts counts = count_text(cases[i].text, set, cases[i].targets);
        cr_expect_eq(counts.feasible, cases[i].feasible, "%s: %d feasible", cases[i].text, counts.feasible);
        cr_expect_eq(counts.pruned, cases[i].pruned, "%s: %d pruned", cases[i].text, counts.pruned);
    }
    template_set_close(set);
}

Test(space, a_spec_keeps_its_own_lists_and_conditions) {
    static const char text[] = "family: attention_forward\n"
                               "problem: {head_dim: [32, 64]}\n"
                               "schedule:\n"
                               "  algorithm: flash_tiled\n"
                               "  block_m: [32, 48, 64]\n"
                               "target: any\n"
                               "require: [block_m != 64 or overlap == off]\n";
    struct diag diag = {0};
    struct template_set *set = open_set(load);
    struct spec *spec = spec_read("spec", text, strlen(text), &diag);
    cr_assert_not_null(spec, "%s", text_string(&diag.text));
    struct counts counts = count(spec, set, ALL_TARGETS);
    cr_expect_eq(counts.feasible, 2 * (2 * 6 + 3), "%d", counts.feasible);
    cr_expect_eq(counts.pruned, 2 * 3, "%d", counts.pruned);
    cr_expect_eq(spec->axis[KNOB_overlap].count, 1, "the spec itself is not changed");
    spec_free(spec);
    template_set_close(set);
}

Test(space, every_variant_comes_once) {
    enum { MOST = 20000 };
    struct template_set *set = open_set(template_embedded);
    struct diag diag = {0};
    struct spec *spec =
        spec_from_knobs("<problem>", "family=attention_forward dtype=bf16 algorithm=flash_tiled", &diag);
    char(*names)[VARIANT_NAME] = calloc(MOST, sizeof *names);
    struct space space;
    struct variant variant;
    int n = 0;
    for (space_open(&space, spec, set, ALL_TARGETS); space_next(&space, &variant);)
        if (variant.feasible) {
            cr_assert_lt(n, MOST);
            strcpy(names[n++], variant.name);
        }
    qsort(names, (size_t)n, sizeof *names, (int (*)(const void *, const void *))strcmp);
    cr_expect_gt(n, 100);
    for (int i = 1; i < n; i++)
        cr_expect_str_neq(names[i - 1], names[i]);
    free(names);
    space_close(&space);
    spec_free(spec);
    template_set_close(set);
}

Test(space, the_size_of_a_block_is_known) {
    struct template_set *set = open_set(load);
    struct diag diag = {0};
    struct spec *spec =
        spec_from_knobs("<problem>", "family=attention_forward algorithm=flash_tiled block_m=64 target=any", &diag);
    struct space space;
    struct variant variant;
    space_open(&space, spec, set, ALL_TARGETS);
    cr_assert(space_next(&space, &variant));
    cr_expect_eq(variant.block_threads, 64);
    cr_expect_eq(variant.shared_bytes, 64 * 16);
    space_close(&space);
    spec_free(spec);
    template_set_close(set);
}

Test(space, sizes_in_a_problem_become_its_shape) {
    static const struct {
        const char *text;
        int shapes;
        struct shape shape;
    } cases[] = {
        {"family=attention_forward", 0, {0}},
        {"family=attention_forward heads=4", 0, {0}},
        {"family=attention_forward heads=4 len_q=100", 1, {.batch = 1, .heads = 4, .len_q = 100, .len_kv = 100}},
        {"family=attention_forward len_q=1 len_kv=7 batch=3 kv_heads=1",
         1,
         {.batch = 3, .heads = 1, .kv_heads = 1, .len_q = 1, .len_kv = 7}},
        {"family=softmax rows=3 cols=5", 1, {.batch = 1, .heads = 1, .rows = 3, .cols = 5}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct diag diag = {0};
        struct spec *spec = spec_from_knobs("<problem>", cases[i].text, &diag);
        cr_assert_not_null(spec, "%s", text_string(&diag.text));
        cr_expect_eq(spec->shapes, cases[i].shapes, "%s", cases[i].text);
        for (int id = 0; spec->shapes && id < SHAPE_COUNT; id++)
            if (shape_table[id].families & 1u << spec->family)
                cr_expect_eq(shape_get(spec->shape, id), shape_get(&cases[i].shape, id), "%s: %s", cases[i].text,
                             shape_table[id].name);
        spec_free(spec);
    }
}

Test(space, bad_problems_are_refused) {
    static const char *const texts[] = {"head_dim=64", "family=attention_forward blok_m=3", "family=nothing", ""};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct diag diag = {0};
        cr_expect_null(spec_from_knobs("<problem>", texts[i], &diag), "%s", texts[i]);
        cr_expect_gt(diag.errors, 0, "%s", texts[i]);
        diag_free(&diag);
    }
}

Test(space, bad_lists_are_refused) {
    static const struct {
        const char *line, *message;
    } cases[] = {
        {"//$ tune threads in [32, 99999]", "item 2 of this list is no integer from 32 to 1024"},
        {"//$ tune threads in [block_m]", "item 1 of this list is no integer"},
        {"//$ tune threads in [causal]", "no integer"},
        {"//$ tune overlap in [off, on]", "item 2 of this list is no word of knob overlap"},
        {"//$ tune overlap in [1]", "no word of knob overlap"},
        {"//$ tune threads in 32", "a list"},
        {"//$ tune threads below 32", "expected 'tune NAME in LIST'"},
        {"//$ tune algorithm in [flash]", "expected a schedule knob or target"},
        {"//$ tune head_dim in [64]", "expected a schedule knob or target"},
        {"//$ tune tread in [64]", "expected a schedule knob or target"},
        {"//$ tune threads in [32]\n//$ tune threads in [64]", "listed already"},
        {"//$ if mask == causal\n//$ tune threads in [32]\n//$ end", "cannot be in an 'if'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct diag diag = {0};
        struct template_set *set = template_set_open(load, (void *)(uintptr_t)cases[i].line, &diag);
        cr_expect_null(set, "%s", cases[i].line);
        cr_expect_not_null(strstr(text_string(&diag.text), cases[i].message), "%s: %s", cases[i].line,
                           text_string(&diag.text));
        diag_free(&diag);
        template_set_close(set);
    }
}
