/* Sizes that a spec or problem fixes: they are constants in the source, give the same numbers, and other
   sizes are refused. */
#include "helper_run.h"
#include "spec_test.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { B = 2, H = 4, KV = 2, LQ = 37, LK = 53, D = 16 };

#define PROBLEM "family=attention_forward dtype=bf16 head_dim=16 mask=causal"
#define FIXED   PROBLEM " fixed_len_q=37 fixed_len_kv=53 fixed_heads=4 fixed_kv_heads=2"

static float q[B * H * LQ * D], k[B * KV * LK * D], v[B * KV * LK * D];

static const struct oracle_attention problem = {.q = q,
                                                .k = k,
                                                .v = v,
                                                .batch = B,
                                                .heads = H,
                                                .kv_heads = KV,
                                                .len_q = LQ,
                                                .len_kv = LK,
                                                .head_dim = D,
                                                .head_dim_v = D,
                                                .scale = 0.25,
                                                .causal = true};

static const struct {
    const char *target, *schedule;
} kernels[] = {
    {"", "algorithm=materialized"},
    {"", "algorithm=multi_pass"},
    {"", "algorithm=flash"},
    {"", "algorithm=flash_tiled"},
    {"", "algorithm=flash_tiled loop_order=kv_outer"},
    {" target=sm_90a", "algorithm=flash_async block_m=64 block_n=16"},
};

enum { KERNELS = sizeof kernels / sizeof *kernels };

static att_kernel *find(att_session *session, const char *text, int which) {
    char whole[256];
    snprintf(whole, sizeof whole, "%s%s", text, kernels[which].target);
    return run_find(session, whole, kernels[which].schedule);
}

Test(fixed, sizes_are_constants_of_every_attention_kernel) {
    static const char *const words[] = {
        "constexpr int FIXED_LEN_Q = 37;",   "static constexpr int len_q = FIXED_LEN_Q;",
        "constexpr int FIXED_LEN_KV = 53;",  "static constexpr int len_kv = FIXED_LEN_KV;",
        "constexpr int FIXED_HEADS = 4;",    "static constexpr int heads = FIXED_HEADS;",
        "constexpr int FIXED_KV_HEADS = 2;", "static constexpr int kv_heads = FIXED_KV_HEADS;"};
    att_session *session = run_open();
    for (int i = 0; i < KERNELS; i++) {
        att_kernel *open = find(session, PROBLEM, i), *fixed = find(session, FIXED, i);
        for (size_t w = 0; w < sizeof words / sizeof *words; w++)
            cr_expect(strstr(att_kernel_source(fixed), words[w]), "%s: %s", kernels[i].schedule, words[w]);
        cr_expect(strstr(att_kernel_name(fixed), "_lq37_lkv53_h4_hkv2_"), "%s", att_kernel_name(fixed));
        cr_expect_not(strstr(att_kernel_source(open), "FIXED_"), "%s", kernels[i].schedule);
        cr_expect_not(strstr(att_kernel_source(open), "fixed_"), "%s", kernels[i].schedule);
    }
    att_close(session);
}

Test(fixed, results_are_the_same_bits) {
    static float open_o[B * H * LQ * D], open_lse[B * H * LQ], o[B * H * LQ * D], lse[B * H * LQ];
    att_session *session = run_open();
    unsigned seed = 1;
    run_fill(q, sizeof q / sizeof *q, TOLERANCE_BF16, &seed);
    run_fill(k, sizeof k / sizeof *k, TOLERANCE_BF16, &seed);
    run_fill(v, sizeof v / sizeof *v, TOLERANCE_BF16, &seed);
    for (int i = 0; i < KERNELS; i++) {
        run_attention(session, find(session, PROBLEM, i), TOLERANCE_BF16, TOLERANCE_BF16, &problem, open_o, open_lse,
                      NULL);
        run_attention(session, find(session, FIXED, i), TOLERANCE_BF16, TOLERANCE_BF16, &problem, o, lse, NULL);
        cr_expect_arr_eq(o, open_o, sizeof o, "%s", kernels[i].schedule);
        cr_expect_arr_eq(lse, open_lse, sizeof lse, "%s", kernels[i].schedule);
    }
    att_close(session);
}

Test(fixed, other_sizes_are_refused_by_name) {
    static const struct {
        struct att_attention_args sizes;
        const char *words;
    } cases[] = {
        {{.batch = B, .heads = H, .kv_heads = KV, .len_q = 36, .len_kv = LK}, "len_q is 36, expected 37"},
        {{.batch = B, .heads = H, .kv_heads = KV, .len_q = LQ, .len_kv = 54}, "len_kv is 54, expected 53"},
        {{.batch = B, .heads = 2, .kv_heads = KV, .len_q = LQ, .len_kv = LK}, "heads is 2, expected 4"},
        {{.batch = B, .heads = H, .len_q = LQ, .len_kv = LK}, "kv_heads is 4, expected 2"},
        {{.batch = 1, .heads = H, .kv_heads = KV, .len_q = 0, .len_kv = LK}, "len_q is 0, expected 37"},
    };
    att_session *session = run_open();
    att_kernel *kernel = find(session, FIXED, 2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct att_args args = {.size = sizeof args, .family = ATT_ATTENTION_FORWARD, .attention = cases[i].sizes};
        size_t bytes;
        cr_expect_eq(att_launch(kernel, &args, NULL), ATT_INVALID_ARGUMENT, "case %zu", i);
        cr_expect(strstr(att_message(session), cases[i].words), "%s", att_message(session));
        cr_expect(strstr(att_message(session), "has as a constant; find one without fixed_"), "%s",
                  att_message(session));
        cr_expect_eq(att_workspace_size(kernel, &args, &bytes), ATT_INVALID_ARGUMENT);
    }
    att_close(session);
}

Test(fixed, heads_that_do_not_divide_are_no_variant) {
    att_session *session = run_open();
    att_kernel *kernel;
    cr_expect_eq(att_find(session, PROBLEM " fixed_heads=4 fixed_kv_heads=3", NULL, &kernel), ATT_UNSUPPORTED);
    cr_expect(strstr(att_message(session), "fixed_heads % fixed_kv_heads == 0"), "%s", att_message(session));
    att_close(session);
}

static struct spec *read_spec(const char *text, struct diag *diag) { return spec_read("s", text, strlen(text), diag); }

Test(fixed, specs_fix_sizes_in_a_map_of_their_own) {
    struct diag diag = {0};
    struct spec *spec = read_spec("family: attention_forward\nfixed: {len_q: [0, 128], heads: 8}\n", &diag);
    cr_assert(spec, "%s", text_string(&diag.text));
    cr_expect_eq(spec->axis[KNOB_fixed_len_q].count, 2);
    cr_expect_eq(spec->axis[KNOB_fixed_len_q].value[1], 128);
    cr_expect_eq(spec->axis[KNOB_fixed_heads].value[0], 8);
    cr_expect_eq(spec->axis[KNOB_fixed_len_kv].value[0], 0);
    spec_free(spec);
    static const char *const mistakes[][2] = {
        {"{batch: 2}", "s:2:9: error: 'batch' cannot be fixed: len_q, len_kv, heads and kv_heads can"},
        {"{len_q: -1}", "s:2:16: error: fixed_len_q must be an integer from 0"},
        {"{len_q: 3000000000}", "fixed_len_q must be an integer from 0"},
        {"[len_q]", "fixed takes a map of keys, found a list"},
        {"{len_q: {}}", "len_q takes a value or a list of values, found a map"},
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        char text[128];
        snprintf(text, sizeof text, "family: attention_forward\nfixed: %s\n", mistakes[i][0]);
        diag_free(&diag);
        cr_expect_null(read_spec(text, &diag), "%s", text);
        cr_expect(strstr(text_string(&diag.text), mistakes[i][1]), "%s", text_string(&diag.text));
    }
    diag_free(&diag);
}
