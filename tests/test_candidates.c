#include "candidates.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

struct bench {
    struct template_set *set;
    struct spec *spec;
    struct model_gpu gpu;
    struct candidates all;
};

static const struct shape shapes[] = {
    {.batch = 16, .heads = 16, .kv_heads = 16, .len_q = 1024, .len_kv = 1024},
    {.batch = 1, .heads = 16, .kv_heads = 2, .len_q = 16384, .len_kv = 16384},
};

static void find(struct bench *bench, const char *spec, int count, const struct candidates_filter *filter) {
    struct diag diag = {0};
    *bench = (struct bench){.set = template_set_open(NULL, NULL, &diag)};
    bench->spec = !strchr(spec, '\n') ? spec_from_knobs("<problem>", spec, &diag)
                                      : spec_read("spec.yaml", spec, strlen(spec), &diag);
    cr_assert(bench->set && bench->spec && model_gpu_find("h200", &bench->gpu), "%s", text_string(&diag.text));
    cr_assert(candidates_find(&bench->all, bench->set, bench->spec, &bench->gpu, shapes, count, filter));
}

static void close_bench(struct bench *bench) {
    candidates_free(&bench->all);
    spec_free(bench->spec);
    template_set_close(bench->set);
}

Test(candidates, the_best_come_first_and_every_one_can_be_made_again) {
    struct bench bench;
    find(&bench, "family=attention_forward dtype=bf16 head_dim=128 algorithm=flash_async", 2, NULL);
    cr_assert_eq(bench.all.problems, 1);
    cr_expect_gt(bench.all.count, 500);
    for (int i = 0; i < bench.all.count; i++) {
        const struct candidate *c = &bench.all.candidate[i];
        struct knobs knobs = candidates_knobs(&bench.all, c);
        struct variant variant;
        cr_expect(variant_complete(bench.set, &knobs, true, &variant), "%s", variant.reason);
        double product = 1;
        for (int k = 0; k < 2; k++) {
            struct model_terms terms;
            cr_assert(model_predict(&bench.gpu, &variant, &shapes[k], NULL, &terms));
            cr_expect_float_eq(candidates_seconds(&bench.all, c, k), terms.seconds, 1e-6 * terms.seconds);
            double best = INFINITY;
            for (int j = 0; j < bench.all.count; j++)
                best = fmin(best, candidates_seconds(&bench.all, &bench.all.candidate[j], k));
            product *= candidates_seconds(&bench.all, c, k) / best;
        }
        cr_expect_float_eq(c->score, sqrt(product), 1e-5 * c->score);
        cr_expect(i == 0 || c->order >= c[-1].order);
        cr_expect(c->order >= c->score);
    }
    close_bench(&bench);
}

Test(candidates, what_the_model_cannot_tell_apart_does_not_fill_the_first_places) {
    struct bench bench;
    find(&bench, "family=attention_forward dtype=bf16 head_dim=128 algorithm=flash_async", 1, NULL);
    int sizes = 0;
    for (int i = 0; i < 12; i++) { /* distinct tiles among the first 12 */
        const int *value = bench.all.candidate[i].value;
        bool seen = false;
        for (int j = 0; j < i; j++)
            seen |= bench.all.candidate[j].value[KNOB_block_m] == value[KNOB_block_m] &&
                    bench.all.candidate[j].value[KNOB_block_n] == value[KNOB_block_n];
        sizes += !seen;
    }
    cr_expect_geq(sizes, 3, "%d", sizes);
    close_bench(&bench);
}

Test(candidates, problems_compete_among_themselves) {
    struct bench bench;
    find(&bench,
         "family: attention_forward\n"
         "problem: {head_dim: [64, 96], mask: [none, causal], dtype: fp16}\n"
         "schedule: {algorithm: [flash_async, flash_tiled], stages: 2}\n",
         1, NULL);
    cr_assert_eq(bench.all.problems, 4);
    int total = 0;
    for (int problem = 0; problem < 4; problem++) {
        int count;
        const struct candidate *first = candidates_of(&bench.all, problem, &count);
        cr_assert_gt(count, 10);
        cr_expect_float_eq(first->score, 1, 1e-6, "the best of each problem");
        for (int i = 1; i < count; i++) {
            cr_expect_eq(first[i].value[KNOB_head_dim], first->value[KNOB_head_dim]);
            cr_expect_eq(first[i].value[KNOB_mask], first->value[KNOB_mask]);
        }
        total += count;
    }
    cr_expect_eq(total, bench.all.count);
    close_bench(&bench);
}

/* Algorithms use different knobs of a problem: flash_async has no dtype_kv, and decode no precision. */
Test(candidates, every_algorithm_of_a_problem_competes) {
    struct bench bench;
    find(&bench, "family=attention_forward dtype=bf16 head_dim=128", 1, NULL);
    unsigned algorithms = 0;
    for (int i = 0; i < bench.all.count; i++)
        algorithms |= 1u << bench.all.candidate[i].value[KNOB_algorithm];
    cr_expect_eq(bench.all.problems, 1);
    cr_expect(algorithms >> algorithm_flash_async & algorithms >> algorithm_decode & algorithms >> algorithm_flash_mma &
              1);
    close_bench(&bench);
}

Test(candidates, what_is_pruned_is_counted_by_constraint) {
    struct bench bench;
    find(&bench,
         "family: attention_forward\n"
         "problem: {head_dim: 64}\n"
         "schedule: {algorithm: flash, threads: [32, 64, 100, 128, 200]}\n"
         "require:\n  - threads != 128\n",
         1, NULL);
    cr_expect_eq(bench.all.count, 2);
    cr_expect_eq(bench.all.tried, 5);
    cr_assert_eq(bench.all.prunings, 2);
    cr_expect_eq(bench.all.pruning[0].count, 2);
    cr_expect_eq(strncmp(bench.all.pruning[0].rule, "attention_flash.cu:", 19), 0, "%s", bench.all.pruning[0].rule);
    cr_expect_eq(bench.all.pruning[1].count, 1);
    cr_expect_str_eq(bench.all.pruning[1].rule, "spec.yaml:5");
    cr_expect_not_null(strstr(bench.all.pruning[1].example, "threads is 128"));
    close_bench(&bench);
}

Test(candidates, an_empty_space_has_reasons) {
    struct bench bench;
    find(&bench, "family=attention_forward dtype=fp32 algorithm=flash_async", 1, NULL);
    cr_expect_eq(bench.all.count, 0);
    cr_assert_gt(bench.all.prunings, 0);
    cr_expect_not_null(strstr(bench.all.pruning[0].example, "dtype is fp32"));
    close_bench(&bench);
}

static bool of_128_rows(const void *context, const struct variant *variant) {
    return variant->knobs.block_m == *(const int *)context;
}

static bool at_once(void) { return true; }

Test(candidates, a_filter_chooses_and_an_interrupt_ends) {
    struct bench bench;
    const int rows = 128;
    const struct candidates_filter chosen = {.wanted = of_128_rows, .context = &rows}, ended = {.interrupted = at_once};
    find(&bench, "family=attention_forward dtype=bf16 head_dim=64", 1, &chosen);
    cr_expect_gt(bench.all.count, 10);
    for (int i = 0; i < bench.all.count; i++)
        cr_expect_eq(bench.all.candidate[i].value[KNOB_block_m], 128);
    close_bench(&bench);
    find(&bench, "family=attention_forward dtype=bf16 head_dim=64", 1, &ended);
    cr_expect_leq(bench.all.tried, 1024);
    close_bench(&bench);
}

Test(candidates, ten_thousand_are_sorted_in_a_second) {
    struct bench bench;
    find(&bench,
         "family: attention_forward\n"
         "problem: {head_dim: 128, mask: causal, dtype: bf16}\n",
         2, NULL);
    double seconds = bench.all.search_seconds + bench.all.sort_seconds;
    cr_log_info("%d candidates of %lld schedules in %.2f s", bench.all.count, (long long)bench.all.tried, seconds);
    cr_expect_gt(bench.all.count, 10000);
    cr_expect_lt(seconds / bench.all.count * 10000, 5, "%g", seconds); /* promised: 1; the rest is for sanitizers */
    close_bench(&bench);
}
