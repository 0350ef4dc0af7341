/* Sequences with their own lengths: what a launch refuses, and that lengths are read when the kernel runs. */
#include "helper_device.h"
#include "helper_sequences.h"
#include "oracle.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { B = 3, H = 2, LQ = 4, LK = 10, D = 8, TOTAL_Q = 7, TOTAL_KV = 20, PAGE = 4, PAGES = 9, COLUMNS = 3 };

/* On the host device, device arrays are host memory. */
static float q[TOTAL_Q * H * D], k[PAGES * PAGE * H * D], v[PAGES * PAGE * H * D], o[TOTAL_Q * H * D], lse[H * TOTAL_Q];
static int32_t cu_q[B + 1], cu_kv[B + 1], lengths[B], table[B * COLUMNS], indptr[B + 1], indices[B * COLUMNS];

static struct att_args ragged(void) {
    memcpy(cu_q, (int32_t[]){0, 4, 4, 6}, sizeof cu_q);
    memcpy(cu_kv, (int32_t[]){0, 10, 13, 20}, sizeof cu_kv);
    struct att_tensor tensor = {q, 0, D, H * D};
    struct att_args args = {.size = sizeof args,
                            .family = ATT_ATTENTION_FORWARD,
                            .attention = {.q = tensor,
                                          .k = {k, 0, D, H * D},
                                          .v = {v, 0, D, H * D},
                                          .o = {o, 0, D, H * D},
                                          .lse = lse,
                                          .batch = B,
                                          .heads = H,
                                          .len_q = LQ,
                                          .len_kv = LK,
                                          .cu_seqlens_q = cu_q,
                                          .cu_seqlens_kv = cu_kv,
                                          .total_q = TOTAL_Q,
                                          .total_kv = TOTAL_KV}};
    return args;
}

static struct att_args paged(void) {
    struct att_args args = ragged();
    struct att_attention_args *a = &args.attention;
    memcpy(lengths, (int32_t[]){10, 0, 5}, sizeof lengths);
    memcpy(table, (int32_t[]){8, 0, 3, -1, -1, -1, 5, 1, 0x7fffffff}, sizeof table);
    a->cu_seqlens_kv = NULL;
    a->total_kv = 0;
    a->lengths_kv = lengths;
    a->page_table = table;
    a->pages = PAGES;
    a->k = (struct att_tensor){k, PAGE * H * D, D, H * D};
    a->v = (struct att_tensor){v, PAGE * H * D, D, H * D};
    return args;
}

static struct att_args csr(void) {
    struct att_args args = paged();
    memcpy(indptr, (int32_t[]){0, 3, 3, 5}, sizeof indptr);
    memcpy(indices, (int32_t[]){8, 0, 3, 5, 1}, 5 * sizeof *indices);
    args.attention.page_table = NULL;
    args.attention.page_indptr = indptr;
    args.attention.page_indices = indices;
    return args;
}

static att_kernel *find(att_session *session, const char *problem) {
    char text[256];
    att_kernel *kernel = NULL;
    snprintf(text, sizeof text, "family=attention_forward head_dim=%d %s", D, problem);
    cr_assert_eq(att_find(session, text, NULL, &kernel), ATT_OK, "%s", att_message(session));
    return kernel;
}

static void fill_all(void) {
    sequences_draw(q, sizeof q / sizeof *q, 1);
    sequences_draw(k, sizeof k / sizeof *k, 2);
    sequences_draw(v, sizeof v / sizeof *v, 3);
}

/* --- what is refused ----------------------------------------------------------------------------------------------- */

#define RAGGED "layout=ragged"
#define PAGED  "layout=ragged page_size=4"
#define CSR    "layout=ragged page_size=4 page_table=csr"

static void no_cu_q(struct att_attention_args *a) { a->cu_seqlens_q = NULL; }
static void no_cu_kv(struct att_attention_args *a) { a->cu_seqlens_kv = NULL; }
static void lengths_too(struct att_attention_args *a) { a->lengths_kv = lengths; }
static void negative_total(struct att_attention_args *a) { a->total_q = -1; }
static void odd_address(struct att_attention_args *a) { a->cu_seqlens_q = (int32_t *)(void *)((char *)cu_q + 1); }
static void first_not_0(struct att_attention_args *a) { cu_q[0] = 1, (void)a; }
static void falling(struct att_attention_args *a) { cu_q[2] = 3, (void)a; }
static void too_long(struct att_attention_args *a) { cu_q[1] = 5, (void)a; }
static void past_total(struct att_attention_args *a) { a->total_kv = 19; }
static void on_output(struct att_attention_args *a) { a->cu_seqlens_q = (int32_t *)(void *)o; }
static void no_lengths(struct att_attention_args *a) { a->lengths_kv = NULL; }
static void no_table(struct att_attention_args *a) { a->page_table = NULL; }
static void csr_too(struct att_attention_args *a) { a->page_indptr = indptr; }
static void narrow_table(struct att_attention_args *a) { a->page_table_row_stride = 2; }
static void negative_table(struct att_attention_args *a) { a->page_table_row_stride = -3; }
static void long_length(struct att_attention_args *a) { lengths[2] = 11, (void)a; }
static void negative_length(struct att_attention_args *a) { lengths[1] = -1, (void)a; }
static void stale_page(struct att_attention_args *a) { table[7] = -1, (void)a; }
static void far_page(struct att_attention_args *a) { a->pages = 8; }
static void begins_before(struct att_attention_args *a) { indptr[0] = -1, (void)a; }
static void few_pages(struct att_attention_args *a) { indptr[3] = 4, (void)a; }
static void stray_total(struct att_attention_args *a) { a->total_kv = 5; }

static const struct refusal {
    const char *problem;
    struct att_args (*args)(void);
    void (*spoil)(struct att_attention_args *args);
    const char *message;
} refusals[] = {
    {RAGGED, ragged, no_cu_q,
     "cu_seqlens_q is null, expected int32 numbers in device memory; the kernel's problem has "
     "layout=ragged"},
    {RAGGED, ragged, no_cu_kv, "cu_seqlens_kv is null"},
    {RAGGED, ragged, lengths_too, "lengths_kv is given, and this kernel takes none"},
    {RAGGED, ragged, negative_total, "total_q is -1, expected 0 to"},
    {RAGGED, ragged, odd_address, "is not aligned to its elements of 4 bytes"},
    {RAGGED, ragged, first_not_0, "cu_seqlens_q[0] is 1, expected 0 to 0"},
    {RAGGED, ragged, falling, "cu_seqlens_q[2] is 3, expected 4 to 7"},
    {RAGGED, ragged, too_long, "cu_seqlens_q[1] is 5, expected 0 to 4"},
    {RAGGED, ragged, past_total, "cu_seqlens_kv[3] is 20, expected 13 to 19"},
    {RAGGED, ragged, on_output, "o overlaps cu_seqlens_q"},
    {"", ragged, NULL, "cu_seqlens_q is given, and this kernel takes none; the kernel's problem has layout=dense"},
    {PAGED, paged, no_lengths, "lengths_kv is null"},
    {PAGED, paged, no_table, "page_table is null"},
    {PAGED, paged, csr_too, "page_indptr is given, and this kernel takes none"},
    {PAGED, paged, narrow_table, "page_table_row_stride is 2, expected at least 3"},
    {PAGED, paged, negative_table, "page_table_row_stride is -3, expected at least 3"},
    {PAGED, paged, long_length, "lengths_kv[2] is 11, expected 0 to 10"},
    {PAGED, paged, negative_length, "lengths_kv[1] is -1, expected 0 to 10"},
    {PAGED, paged, stale_page, "page 1 of sequence 2 is -1, expected 0 to 8"},
    {PAGED, paged, far_page, "page 0 of sequence 0 is 8, expected 0 to 7: there are 8 pages"},
    {PAGED, paged, stray_total, "total_kv is 5, expected 0 to 0"},
    {CSR, csr, few_pages, "page_indptr[3] is 4, expected 5 to"},
    {CSR, csr, begins_before, "page_indptr[0] is -1"},
};

Test(sequences, bad_arguments_are_refused_and_nothing_runs) {
    att_session *session = open_test_device(ATT_HOST_FAST); /* other modes only know buffers from att_alloc */
    if (test_device_is_gpu())
        cr_skip_test("numbers are checked on the host device");
    fill_all();
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const struct refusal *row = &refusals[i];
        att_kernel *kernel = find(session, row->problem);
        struct att_args args = row->args();
        memset(o, 0x7b, sizeof o);
        if (row->spoil)
            row->spoil(&args.attention);
        sequences_expect_refusal(session, kernel, &args, row->message);
        for (size_t at = 0; at < sizeof o; at++)
            cr_assert_eq(((unsigned char *)o)[at], 0x7b);
    }
    att_close(session);
}

Test(sequences, problems_that_contradict_themselves_are_refused) {
    static const struct {
        const char *problem, *message;
    } cases[] = {
        {"layout=ragged page_size=48", "page_size in [0, 1, 2, 4"},
        {"page_size=16", "page_size == 0 or layout != dense"},
        {"layout=ragged page_table=csr", "page_size > 0 or page_table == table"},
        {"layout=ragged fixed_len_q=4", "layout != ragged or fixed_len_q == 0"},
        {"layout=padded fixed_len_kv=4", "layout == dense or fixed_len_kv == 0"},
        {"layout=raged", "did you mean 'ragged'"},
        {"layout=ragged page_size=2048", "page_size"},
    };
    att_session *session = open_test_device(ATT_HOST_FAST);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        sequences_expect_no_kernel(session, "attention_forward", cases[i].problem, cases[i].message);
    att_close(session);
}

Test(sequences, a_tensor_that_a_mask_indexes_by_query_wants_as_many_keys) {
    att_session *session = open_test_device(ATT_HOST_FAST); /* other modes only know buffers from att_alloc */
    if (test_device_is_gpu())
        cr_skip_test("numbers are checked on the host device");
    att_kernel *kernel = find(session, "layout=ragged mask='doc[q] == doc[k]' params='doc: int[len_kv]'");
    static int32_t doc[LK];
    struct att_param param = {.name = "doc", .type = ATT_PARAM_INT, .data = doc, .size = {LK}};
    struct att_args args = ragged();
    args.attention.param_count = 1;
    args.attention.params = &param;
    cr_expect_eq(att_launch(kernel, &args, NULL), ATT_OK, "%s", att_message(session));
    cu_kv[1] = 3; /* four queries */
    cr_expect_eq(att_launch(kernel, &args, NULL), ATT_INVALID_ARGUMENT);
    cr_expect(strstr(att_message(session), "in sequence 0, of 4 queries and 3 keys"), "%s", att_message(session));
    att_close(session);
}

/* --- lengths that change ------------------------------------------------------------------------------------------- */

static void expect_paged_answers(void) {
    for (int b = 0; b < B; b++) {
        static float own_q[H * LQ * D], own_k[H * LK * D], own_v[H * LK * D];
        static double expected[H * LQ * D], expected_lse[H * LQ];
        int rows = cu_q[b + 1] - cu_q[b], keys = lengths[b];
        for (int h = 0; h < H; h++) {
            for (int i = 0; i < rows; i++)
                memcpy(own_q + (h * rows + i) * D, q + ((cu_q[b] + i) * H + h) * D, D * sizeof *q);
            for (int j = 0; j < keys; j++) {
                int row = table[b * COLUMNS + j / PAGE] * PAGE + j % PAGE;
                memcpy(own_k + (h * keys + j) * D, k + (row * H + h) * D, D * sizeof *k);
                memcpy(own_v + (h * keys + j) * D, v + (row * H + h) * D, D * sizeof *v);
            }
        }
        const struct oracle_attention problem = {.q = own_q,
                                                 .k = own_k,
                                                 .v = own_v,
                                                 .batch = 1,
                                                 .heads = H,
                                                 .kv_heads = H,
                                                 .len_q = rows,
                                                 .len_kv = keys,
                                                 .head_dim = D,
                                                 .head_dim_v = D,
                                                 .scale = 1 / sqrt(D),
                                                 .causal = true};
        cr_assert(oracle_attention(&problem, expected, expected_lse));
        for (int h = 0; h < H; h++)
            for (int i = 0; i < rows; i++) {
                double want = expected_lse[h * rows + i], got = (double)lse[h * TOTAL_Q + cu_q[b] + i];
                cr_expect(want == got || fabs(want - got) < 1e-5, "lse of sequence %d: %g, %g", b, want, got);
                for (int d = 0; d < D; d++)
                    cr_expect_float_eq(o[((cu_q[b] + i) * H + h) * D + d], expected[(h * rows + i) * D + d], 1e-5);
            }
    }
}

/* Works like a captured graph: the same launch, with other numbers in the same arrays. */
Test(sequences, lengths_are_read_when_the_kernel_runs) {
    att_session *session = open_test_device(ATT_HOST_FAST);
    if (test_device_is_gpu())
        cr_skip_test("arrays are host memory here");
    att_kernel *kernel = find(session, PAGED " mask=causal");
    fill_all();
    struct att_args args = paged();
    cr_assert_eq(att_launch(kernel, &args, NULL), ATT_OK, "%s", att_message(session));
    expect_paged_answers();
    memcpy(lengths, (int32_t[]){2, 9, 10}, sizeof lengths);
    memcpy(cu_q, (int32_t[]){0, 1, 5, 7}, sizeof cu_q);
    memcpy(table, (int32_t[]){2, -1, -1, 6, 7, 4, 1, 1, 0}, sizeof table); /* pages may be shared */
    cr_assert_eq(att_launch(kernel, &args, NULL), ATT_OK, "%s", att_message(session));
    expect_paged_answers();
    att_close(session);
}

/* --- what others hold ---------------------------------------------------------------------------------------------- */

/* A K/V tile reaches into the next sequence of a packed tensor. Neither its contents may matter, nor those of queries
   that are computed beside those of the sequence. */
Test(sequences, nan_in_a_sequence_stays_there) {
    static const struct {
        const char *problem, *schedule;
    } kernels[] = {
        {"target=sm_90a dtype=bf16 mask=none layout=ragged", "algorithm=flash_async"},
        {"target=sm_90a dtype=bf16 mask='k <= q' layout=ragged", "algorithm=flash_async"},
        {"target=sm_90a dtype=bf16 mask=causal layout=ragged page_size=16", "algorithm=flash_async"},
        {"target=sm_80 dtype=bf16 mask=causal layout=ragged page_size=16", "algorithm=flash_mma"},
        {"mask=causal layout=ragged", "algorithm=flash"},
    };
    const struct shape shape = {.batch = 6, .heads = 2, .kv_heads = 1, .len_q = 70, .len_kv = 90};
    att_session *session = open_test_device(ATT_HOST_CHECK);
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        sequences_check_nan_stays(session, "attention_forward", kernels[i].problem, kernels[i].schedule, &shape);
    att_close(session);
}
