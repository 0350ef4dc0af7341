/* Gradients of sequences with their own lengths: what a launch refuses, that lengths are read when the kernel runs,
   and that nothing else is written or read. The sweep (specs/attention_backward_sequences*.yaml) checks that the
   numbers are right. */
#include "helper_device.h"
#include "helper_sequences.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { B = 3, H = 2, LQ = 4, LK = 10, D = 8, TOTAL_Q = 9, TOTAL_KV = 24, ROW = H * D };

/* On the host device, device arrays are host memory. */
static float q[TOTAL_Q * ROW], k[TOTAL_KV * ROW], v[TOTAL_KV * ROW], o[TOTAL_Q * ROW], lse[H * TOTAL_Q],
    d_o[TOTAL_Q * ROW];
static float dq[TOTAL_Q * ROW], dk[TOTAL_KV * ROW], dv[TOTAL_KV * ROW];
static int32_t cu_q[B + 1], cu_kv[B + 1], lengths[B];
static _Alignas(256) char workspace[1 << 14];

/* The second sequence has no queries. The third ends before the last tokens, which belong to no sequence. */
static struct att_args ragged(void) {
    memcpy(cu_q, (int32_t[]){0, 4, 4, 7}, sizeof cu_q);
    memcpy(cu_kv, (int32_t[]){0, 10, 13, 20}, sizeof cu_kv);
    sequences_draw(q, sizeof q / sizeof *q, 1);
    sequences_draw(k, sizeof k / sizeof *k, 2);
    sequences_draw(v, sizeof v / sizeof *v, 3);
    sequences_draw(o, sizeof o / sizeof *o, 4);
    sequences_draw(d_o, sizeof d_o / sizeof *d_o, 5);
    for (int i = 0; i < H * TOTAL_Q; i++)
        lse[i] = 1;
    struct att_attention_backward_args args = {.d_o = {d_o, 0, D, ROW},
                                               .dq = {dq, 0, D, ROW},
                                               .dk = {dk, 0, D, ROW},
                                               .dv = {dv, 0, D, ROW},
                                               .forward = {.q = {q, 0, D, ROW},
                                                           .k = {k, 0, D, ROW},
                                                           .v = {v, 0, D, ROW},
                                                           .o = {o, 0, D, ROW},
                                                           .lse = lse,
                                                           .batch = B,
                                                           .heads = H,
                                                           .len_q = LQ,
                                                           .len_kv = LK,
                                                           .cu_seqlens_q = cu_q,
                                                           .cu_seqlens_kv = cu_kv,
                                                           .total_q = TOTAL_Q,
                                                           .total_kv = TOTAL_KV}};
    return (struct att_args){.size = sizeof(struct att_args),
                             .family = ATT_ATTENTION_BACKWARD,
                             .workspace = workspace,
                             .workspace_size = sizeof workspace,
                             .attention_backward = args};
}

static att_kernel *find(att_session *session, const char *problem) {
    char text[256];
    att_kernel *kernel = NULL;
    snprintf(text, sizeof text, "family=attention_backward head_dim=%d %s", D, problem);
    cr_assert_eq(att_find(session, text, NULL, &kernel), ATT_OK, "%s", att_message(session));
    return kernel;
}

static void poison_gradients(void) {
    memset(dq, 0x7b, sizeof dq);
    memset(dk, 0x7b, sizeof dk);
    memset(dv, 0x7b, sizeof dv);
}

static bool is_poison(const float *values, size_t count) {
    for (size_t i = 0; i < count * sizeof *values; i++)
        if (((const unsigned char *)values)[i] != 0x7b)
            return false;
    return true;
}

/* --- what is refused ----------------------------------------------------------------------------------------------- */

static void no_cu_q(struct att_attention_args *a) { a->cu_seqlens_q = NULL; }
static void lengths_too(struct att_attention_args *a) { a->lengths_kv = lengths; }
static void falling(struct att_attention_args *a) { cu_q[2] = 3, (void)a; }
static void too_long(struct att_attention_args *a) { cu_q[1] = 5, (void)a; }
static void past_total(struct att_attention_args *a) { a->total_kv = 19; }
static void on_output(struct att_attention_args *a) { a->cu_seqlens_kv = (int32_t *)(void *)dk; }

Test(backward_sequences, bad_arguments_are_refused_and_nothing_runs) {
    static const struct {
        void (*spoil)(struct att_attention_args *args);
        const char *message;
    } refusals[] = {
        {no_cu_q, "cu_seqlens_q is null, expected int32 numbers in device memory"},
        {lengths_too, "lengths_kv is given, and this kernel takes none"},
        {falling, "cu_seqlens_q[2] is 3, expected 4 to"},
        {too_long, "cu_seqlens_q[1] is 5, expected 0 to 4"},
        {past_total, "cu_seqlens_kv[3] is 20, expected 13 to 19"},
        {on_output, "dk overlaps cu_seqlens_kv"},
    };
    att_session *session = open_test_device(ATT_HOST_FAST); /* other modes only know buffers from att_alloc */
    if (test_device_is_gpu())
        cr_skip_test("numbers are checked on the host device");
    att_kernel *kernel = find(session, "layout=ragged");
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        struct att_args args = ragged();
        poison_gradients();
        refusals[i].spoil(&args.attention_backward.forward);
        sequences_expect_refusal(session, kernel, &args, refusals[i].message);
        cr_expect(is_poison(dq, sizeof dq / sizeof *dq) && is_poison(dk, sizeof dk / sizeof *dk));
    }
    att_close(session);
}

Test(backward_sequences, problems_without_gradients_are_refused) {
    static const struct {
        const char *problem, *message;
    } cases[] = {
        {"layout=ragged page_size=16", "page_size == 0 does not hold"},
        {"layout=ragged fixed_len_q=4", "layout != ragged or fixed_len_q == 0"},
    };
    att_session *session = open_test_device(ATT_HOST_FAST);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        sequences_expect_no_kernel(session, "attention_backward", cases[i].problem, cases[i].message);
    att_close(session);
}

/* --- whose rows are written ---------------------------------------------------------------------------------------- */

static void expect_written(void) {
    for (int row = 0; row < TOTAL_Q; row++)
        cr_expect_eq(is_poison(dq + row * ROW, ROW), row >= cu_q[B], "dq of token %d", row);
    for (int row = 0; row < TOTAL_KV; row++) {
        cr_expect_eq(is_poison(dk + row * ROW, ROW), row >= cu_kv[B], "dk of token %d", row);
        cr_expect_eq(is_poison(dv + row * ROW, ROW), row >= cu_kv[B], "dv of token %d", row);
    }
    for (int b = 0; b < B; b++)
        for (int i = cu_kv[b] * ROW; cu_q[b] == cu_q[b + 1] && i < cu_kv[b + 1] * ROW; i++)
            cr_expect(dk[i] == 0 && dv[i] == 0, "a sequence without queries has gradients of 0");
}

/* Works like a captured graph: the same launch, with other numbers in the same arrays. */
Test(backward_sequences, tokens_of_no_sequence_stay_as_they_are_while_lengths_change) {
    static const int32_t queries[][B + 1] = {{0, 4, 4, 7}, {0, 0, 1, 5}, {0, 0, 0, 0}};
    static const int32_t keys[][B + 1] = {{0, 10, 13, 20}, {0, 7, 7, 9}, {0, 1, 2, 3}};
    att_session *session = open_test_device(ATT_HOST_FAST);
    if (test_device_is_gpu())
        cr_skip_test("arrays are host memory here");
    att_kernel *kernel = find(session, "layout=ragged mask=causal");
    struct att_args args = ragged();
    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
        memcpy(cu_q, queries[i], sizeof cu_q);
        memcpy(cu_kv, keys[i], sizeof cu_kv);
        poison_gradients();
        cr_assert_eq(att_launch(kernel, &args, NULL), ATT_OK, "%s", att_message(session));
        expect_written();
    }
    att_close(session);
}

/* --- what others hold ---------------------------------------------------------------------------------------------- */

/* A tile reaches into the next sequence of a packed tensor. The contents of that sequence must not matter. */
Test(backward_sequences, nan_in_a_sequence_stays_there) {
    static const struct {
        const char *problem, *schedule;
    } kernels[] = {
        {"target=sm_80 dtype=bf16 mask=causal layout=ragged", "algorithm=flash_mma"},
        {"target=sm_80 dtype=bf16 mask=none layout=ragged", "algorithm=flash_mma"},
        {"target=sm_90a dtype=bf16 mask=causal layout=ragged", "algorithm=flash_async"},
        {"target=sm_90a dtype=bf16 mask=none layout=ragged deterministic=1", "algorithm=flash_async"},
        {"mask=causal layout=ragged", "algorithm=flash_tiled"},
    };
    const struct shape shape = {.batch = 6, .heads = 2, .kv_heads = 1, .len_q = 40, .len_kv = 50};
    att_session *session = open_test_device(ATT_HOST_CHECK);
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        sequences_check_nan_stays(session, "attention_backward", kernels[i].problem, kernels[i].schedule, &shape);
    att_close(session);
}
