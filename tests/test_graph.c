/* A decode step in a CUDA graph: captured once, it stays right while lengths, token positions and page numbers
   change in device memory. On a GPU the graph is replayed; the host device has no graphs and launches again with
   the same arguments. */
#include "helper_driver.h"
#include "helper_run.h"
#include "tensor.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 4, HEADS = 6, KV = 2, GROUP = HEADS / KV, LQ = 2, LKV = 1000, D = 64, TOKENS = BATCH * LQ };
enum { PAGE = 16, COLUMNS = (LKV + PAGE - 1) / PAGE, PAGES = BATCH * COLUMNS };
enum { Q = TOKENS * HEADS * D, CACHE = PAGES * PAGE * KV * D, LSE = HEADS * TOKENS };
enum { ROW_Q = HEADS * D, ROW_KV = KV * D };

/* What changes between replays. */
struct step {
    int32_t lengths[BATCH];
    int32_t cu_q[BATCH + 1]; /* for packed queries; otherwise each sequence has LQ */
    int pages;               /* each number gives another order of the pages */
};

static const struct step steps[] = {
    {{1, 0, 0, 2}, {0, 1, 1, 1, 3}, 0}, /* captured where there is next to nothing to do */
    {{LKV, 0, 17, 512}, {0, 2, 2, 3, 5}, 1},
    {{0, 33, LKV, LKV}, {0, 0, 2, 4, 6}, 2},
    {{64, LKV, 0, 1}, {0, 2, 4, 4, 4}, 3},
    {{1, 0, 0, 2}, {0, 1, 1, 1, 3}, 0}};

struct arrays { /* int32 arrays, as a launch takes them */
    int32_t lengths[BATCH], cu_q[BATCH + 1], table[PAGES], indptr[BATCH + 1], indices[PAGES];
};

struct numbers {
    float q[Q], k[CACHE], v[CACHE]; /* (tokens, heads, D), (pages, PAGE, kv heads, D) */
    float o[Q], lse[LSE];           /* (tokens, heads, D), (heads, tokens) or (batch, heads, LQ) */
};

struct fixture {
    att_session *session;
    att_kernel *kernel;
    bool packed, csr;
    struct att_args args;
    struct arrays arrays;
    struct numbers *numbers;
    void *arrays_on_device;
    void *stream, *graph; /* on a GPU */
};

static void *on_device(att_session *session, const void *from, size_t bytes) {
    void *memory;
    cr_assert_eq(att_alloc(session, bytes, &memory), ATT_OK, "%s", att_message(session));
    if (from)
        cr_assert_eq(att_copy_in(session, memory, from, bytes), ATT_OK, "%s", att_message(session));
    return memory;
}

/* Fills `values` with numbers that are rounded to bf16, and uploads them as bf16. */
static void *upload(att_session *session, float *values, int64_t count, unsigned seed) {
    uint16_t *bits = malloc((size_t)count * sizeof *bits);
    cr_assert_not_null(bits);
    run_fill(values, count, TOLERANCE_BF16, &seed);
    for (int64_t i = 0; i < count; i++)
        element_encode(NPY_BF16, values[i], &bits[i]);
    void *memory = on_device(session, bits, (size_t)count * sizeof *bits);
    free(bits);
    return memory;
}

/* Table columns beyond a sequence's pages are -1: nobody may read them. */
static void set_arrays(struct fixture *f, const struct step *step) {
    struct arrays *a = &f->arrays;
    memcpy(a->lengths, step->lengths, sizeof a->lengths);
    for (int b = 0; b <= BATCH; b++)
        a->cu_q[b] = f->packed ? step->cu_q[b] : b * LQ;
    memset(a->table, -1, sizeof a->table);
    memset(a->indices, -1, sizeof a->indices);
    for (int b = 0; b < BATCH; b++) {
        int pages = (step->lengths[b] + PAGE - 1) / PAGE;
        a->indptr[b + 1] = a->indptr[b] + pages;
        for (int i = 0; i < pages; i++) {
            int32_t page = ((b * COLUMNS + i) * 5 + step->pages * 11) % PAGES;
            a->table[b * COLUMNS + i] = a->indices[a->indptr[b] + i] = page;
        }
    }
    cr_assert_eq(att_copy_in(f->session, f->arrays_on_device, a, sizeof *a), ATT_OK, "%s", att_message(f->session));
}

static void set_args(struct fixture *f) {
    att_session *session = f->session;
    struct numbers *n = f->numbers;
    struct arrays *device = f->arrays_on_device = on_device(session, NULL, sizeof *device);
    struct att_attention_args a = {
        .q = {upload(session, n->q, Q, 1), f->packed ? 0 : LQ * ROW_Q, D, ROW_Q},
        .k = {upload(session, n->k, CACHE, 2), PAGE * ROW_KV, D, ROW_KV},
        .v = {upload(session, n->v, CACHE, 3), PAGE * ROW_KV, D, ROW_KV},
        .o = {on_device(session, NULL, sizeof n->o), f->packed ? 0 : LQ * ROW_Q, D, ROW_Q},
        .lse = on_device(session, NULL, sizeof n->lse),
        .batch = BATCH,
        .heads = HEADS,
        .kv_heads = KV,
        .len_q = LQ,
        .len_kv = LKV,
        .lengths_kv = device->lengths,
        .pages = PAGES,
    };
    if (f->packed) {
        a.cu_seqlens_q = device->cu_q;
        a.total_q = TOKENS;
    }
    if (f->csr) {
        a.page_indptr = device->indptr;
        a.page_indices = device->indices;
    } else
        a.page_table = device->table;
    f->args = (struct att_args){.size = sizeof f->args, .family = ATT_ATTENTION_FORWARD, .attention = a};
}

static void set_workspace(struct fixture *f) {
    size_t bytes;
    cr_assert_eq(att_workspace_size(f->kernel, &f->args, &bytes), ATT_OK, "%s", att_message(f->session));
    f->args.workspace = on_device(f->session, NULL, bytes);
    f->args.workspace_size = bytes;
}

static void capture(struct fixture *f) {
    cr_assert_eq(att_prepare(f->kernel), ATT_OK, "%s", att_message(f->session));
    f->stream = driver_stream();
    driver_capture_begin(f->stream, false);
    cr_assert_eq(att_launch(f->kernel, &f->args, f->stream), ATT_OK, "%s", att_message(f->session));
    f->graph = driver_capture_end(f->stream);
}

/* Runs one more step. O and LSE are NaN before, so that nothing of the previous step remains. */
static void replay(struct fixture *f) {
    struct numbers *n = f->numbers;
    memset(n->o, 0xff, sizeof n->o);
    memset(n->lse, 0xff, sizeof n->lse);
    cr_assert_eq(att_copy_in(f->session, f->args.attention.o.data, n->o, sizeof n->o), ATT_OK);
    cr_assert_eq(att_copy_in(f->session, f->args.attention.lse, n->lse, sizeof n->lse), ATT_OK);
    if (f->graph)
        driver_graph_launch(f->graph, f->stream);
    else
        cr_assert_eq(att_launch(f->kernel, &f->args, NULL), ATT_OK, "%s", att_message(f->session));
    cr_assert_eq(att_synchronize(f->session), ATT_OK, "%s", att_message(f->session));
    cr_assert_eq(att_copy_out(f->session, n->o, f->args.attention.o.data, sizeof n->o), ATT_OK);
    cr_assert_eq(att_copy_out(f->session, n->lse, f->args.attention.lse, sizeof n->lse), ATT_OK);
}

static void check_sequence(const struct fixture *f, int step, int b) {
    static float q[HEADS * LQ * D], k[KV * LKV * D], v[KV * LKV * D];
    static double o[HEADS * LQ * D], o_off[HEADS * LQ * D], lse[HEADS * LQ], lse_off[HEADS * LQ];
    const struct numbers *n = f->numbers;
    const struct arrays *a = &f->arrays;
    int first = a->cu_q[b], rows = a->cu_q[b + 1] - first, keys = a->lengths[b];
    for (int h = 0; h < HEADS; h++)
        for (int i = 0; i < rows; i++)
            memcpy(q + (h * rows + i) * D, n->q + (first + i) * ROW_Q + h * D, D * sizeof *q);
    for (int h = 0; h < KV; h++)
        for (int j = 0; j < keys; j++) {
            int from = (a->table[b * COLUMNS + j / PAGE] * PAGE + j % PAGE) * ROW_KV + h * D;
            memcpy(k + (h * keys + j) * D, n->k + from, D * sizeof *k);
            memcpy(v + (h * keys + j) * D, n->v + from, D * sizeof *v);
        }
    const struct oracle_attention problem = {.q = q,
                                             .k = k,
                                             .v = v,
                                             .batch = 1,
                                             .heads = HEADS,
                                             .kv_heads = KV,
                                             .len_q = rows,
                                             .len_kv = keys,
                                             .head_dim = D,
                                             .head_dim_v = D,
                                             .scale = 1 / sqrt(D),
                                             .causal = true};
    cr_assert(oracle_attention(&problem, o, lse) &&
              tolerance_attention(&problem, TOLERANCE_BF16, TOLERANCE_FP32, o, lse, o_off, lse_off));
    for (int h = 0; h < HEADS; h++)
        for (int i = 0; i < rows; i++) {
            int row = h * rows + i;
            double found = (double)n->lse[f->packed ? h * TOKENS + first + i : (b * HEADS + h) * LQ + i];
            cr_expect(tolerance_accepts(TOLERANCE_FP32, lse[row], found, lse_off[row]),
                      "step %d, sequence %d, head %d, query %d: LSE is %.9g, expected %.9g", step, b, h, i, found,
                      lse[row]);
            for (int d = 0; d < D; d++) {
                found = (double)n->o[(first + i) * ROW_Q + h * D + d];
                cr_expect(tolerance_accepts(TOLERANCE_FP32, o[row * D + d], found, o_off[row * D + d]),
                          "step %d, sequence %d, head %d, query %d, column %d: O is %.9g, expected %.9g", step, b, h, i,
                          d, found, o[row * D + d]);
            }
        }
}

/* Rows that belong to no sequence are unchanged. */
static void check_untouched(const struct fixture *f, int step) {
    for (int token = f->arrays.cu_q[BATCH]; token < TOKENS; token++)
        for (int h = 0; h < HEADS; h++) {
            cr_expect(isnan(f->numbers->lse[h * TOKENS + token]), "step %d: LSE of token %d is written", step, token);
            cr_expect(isnan(f->numbers->o[token * ROW_Q + h * D]), "step %d: O of token %d is written", step, token);
        }
}

#define DECODE "family=attention_forward dtype=bf16 dtype_out=fp32 head_dim=64 mask=causal page_size=16 "

static const struct {
    const char *problem;
    bool packed, csr;
} cases[] = {
    {DECODE "layout=padded", false, false},
    {DECODE "layout=padded page_table=csr", false, true},
    {DECODE "layout=ragged", true, false},
    {DECODE "layout=ragged page_table=csr", true, true},
    {DECODE "layout=padded batch_invariant=1", false, false},
};

/* `target`: " target=sm_80" where no GPU determines it. */
static void run_case(att_session *session, int number, const char *target, bool graph) {
    char problem[200];
    struct fixture f = {.session = session,
                        .packed = cases[number].packed,
                        .csr = cases[number].csr,
                        .numbers = calloc(1, sizeof *f.numbers)};
    cr_assert_not_null(f.numbers);
    snprintf(problem, sizeof problem, "%s%s", cases[number].problem, target);
    f.kernel = run_find(session, problem, "algorithm=decode");
    set_args(&f);
    set_workspace(&f);
    set_arrays(&f, &steps[0]);
    if (graph)
        capture(&f);
    for (int i = 0; i < (int)(sizeof steps / sizeof *steps); i++) {
        set_arrays(&f, &steps[i]);
        replay(&f);
        for (int b = 0; b < BATCH; b++)
            check_sequence(&f, i, b);
        check_untouched(&f, i);
    }
    free(f.numbers);
}

static void run_cases(const struct att_options *options, const char *target, bool graph) {
    att_session *session;
    enum att_status status = att_open(options, &session);
    if (status == ATT_NO_DEVICE)
        cr_skip_test("no GPU: %s", att_message(session));
    cr_assert_eq(status, ATT_OK, "%s", att_message(session));
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++)
        run_case(session, i, target, graph);
    att_close(session);
}

Test(graph, replayed_on_a_gpu_sees_new_lengths_and_pages) {
    const struct att_options options = {.size = sizeof options, .device = ATT_DEVICE_CUDA, .no_disk_cache = 1};
    run_cases(&options, "", true);
}

Test(graph, the_same_launch_on_the_host_device_sees_new_lengths_and_pages) {
    const struct att_options options = {.size = sizeof options, .device = ATT_DEVICE_HOST, .no_disk_cache = 1};
    run_cases(&options, " target=sm_80", false);
}
