/* Dropout: which weights are dropped, and what a launch may pass for it. The sweep (specs/attention_dropout.yaml)
   checks that all algorithms drop the same weights as the oracle. */
#include "helper_run.h"
#include "oracle_dropout.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

/* Known answers that the paper's authors publish with Random123 (kat_vectors, philox4x32 7). */
Test(dropout, philox_gives_the_known_answers) {
    static const struct {
        uint32_t counter[4], key[2], numbers[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0x4dfccaba, 0x190a87f0, 0xc47362ba, 0xb6b5242a}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint32_t numbers[4];
        oracle_philox(known[i].counter, known[i].key, numbers);
        cr_expect_arr_eq(numbers, known[i].numbers, sizeof numbers, "vector %zu", i);
    }
}

Test(dropout, the_library_and_the_oracle_keep_the_same_weights) {
    enum { HEADS = 3, QUERIES = 40, KEYS = 70 };
    static const uint64_t seeds[] = {0, 1, UINT64_C(0x123456789abcdef0)},
                          offsets[] = {0, UINT64_C(0xfffffffe), UINT64_MAX};
    for (int i = 0; i < 9; i++) {
        const struct oracle_dropout dropout = {0.25, seeds[i / 3], offsets[i % 3]};
        for (int64_t at = 0; at < 2 * HEADS * QUERIES * KEYS; at++) {
            int64_t key = at % KEYS, query = at / KEYS % QUERIES, head = at / KEYS / QUERIES;
            int kept =
                att_dropout_keep(0.25f, dropout.seed, dropout.offset, HEADS, head / HEADS, head % HEADS, query, key);
            double factor = oracle_dropout_factor(&dropout, head, query, key);
            cr_assert_eq(kept ? 1 / 0.75 : 0, factor, "seed %d, offset %d, weight %d", i / 3, i % 3, (int)at);
        }
    }
}

static int count_kept(float p, uint64_t seed, uint64_t offset, int64_t head, int rows, int columns) {
    int kept = 0;
    for (int query = 0; query < rows; query++)
        for (int key = 0; key < columns; key++)
            kept += att_dropout_keep(p, seed, offset, 8, 0, head, query, key);
    return kept;
}

/* A count of n independent events of probability q stays within 6 deviations, sqrt(n q (1 - q)), except once
   in 5 10^8. */
Test(dropout, weights_are_kept_as_often_as_asked) {
    enum { ROWS = 512, COLUMNS = 512, COUNT = ROWS * COLUMNS };
    static const float probabilities[] = {0.01f, 0.1f, 0.5f, 0.9f};
    for (int i = 0; i < 4; i++) {
        double keep = 1 - (double)probabilities[i], kept = count_kept(probabilities[i], 42, 7, 3, ROWS, COLUMNS);
        cr_expect_float_eq(kept, COUNT * keep, 6 * sqrt(COUNT * keep * (1 - keep)) + COUNT * 0x1p-17,
                           "p %g: %g of %d kept", (double)probabilities[i], kept, COUNT);
    }
    cr_expect_eq(count_kept(0, 1, 2, 0, 64, 64), 64 * 64);
    cr_expect_eq(count_kept(0x1p-18f, 1, 2, 0, 64, 64), 64 * 64, "below half of a step: none are dropped");
    cr_expect_lt(count_kept(0x1.fffffep-1f, 1, 2, 0, 512, 512), 40, "1 - 2^-16 at most: 4 are expected");
}

/* The agreement of two masks with p = 1/2 counts events of probability 1/2. */
Test(dropout, masks_of_other_seeds_offsets_heads_and_neighbours_are_independent) {
    enum { ROWS = 256, COLUMNS = 256, COUNT = ROWS * COLUMNS };
    static const struct {
        const char *what;
        uint64_t seed, offset;
        int64_t head, query, key;
    } others[] = {{"seed", 6, 9, 1, 0, 0},         {"upper half of the seed", 5 + (UINT64_C(1) << 32), 9, 1, 0, 0},
                  {"offset", 5, 10, 1, 0, 0},      {"upper half of the offset", 5, 9 + (UINT64_C(1) << 32), 1, 0, 0},
                  {"head", 5, 9, 2, 0, 0},         {"next query", 5, 9, 1, 1, 0},
                  {"8 queries on", 5, 9, 1, 8, 0}, {"next key", 5, 9, 1, 0, 1},
                  {"8 keys on", 5, 9, 1, 0, 8},    {"32 keys on", 5, 9, 1, 0, 32}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        int equal = 0;
        for (int query = 0; query < ROWS; query++)
            for (int key = 0; key < COLUMNS; key++)
                equal += att_dropout_keep(0.5f, 5, 9, 4, 0, 1, query, key) ==
                         att_dropout_keep(0.5f, others[i].seed, others[i].offset, 4, 0, others[i].head,
                                          query + others[i].query, key + others[i].key);
        cr_expect_float_eq((double)equal, COUNT / 2.0, 6 * sqrt(COUNT / 4.0), "%s: %d of %d agree", others[i].what,
                           equal, COUNT);
    }
    for (int key = 0; key < 100; key++)
        cr_expect_eq(att_dropout_keep(0.5f, 5, 9, 4, 1, 2, 3, key), att_dropout_keep(0.5f, 5, 9 + 6, 4, 0, 0, 3, key),
                     "heads of all batches follow each other");
}

/* --- launches ------------------------------------------------------------------------------------------------------ */

enum { HEADS = 2, LQ = 20, LK = 40, D = 8, Q = HEADS * LQ * D, K = HEADS * LK * D };

struct problem {
    float q[Q], k[K], v[K], o[Q], lse[HEADS * LQ];
    uint64_t state[2];
    struct att_args args;
};

static struct att_tensor tensor(float *data, int rows) {
    return (struct att_tensor){data, (int64_t)HEADS * rows * D, (int64_t)rows * D, D};
}

static struct problem *new_problem(att_session *session) {
    struct problem *p = NULL;
    unsigned seed = 3;
    cr_assert_eq(att_alloc(session, sizeof *p, (void **)&p), ATT_OK);
    memset(p, 0, sizeof *p);
    run_fill(p->q, Q, TOLERANCE_FP32, &seed);
    run_fill(p->k, K, TOLERANCE_FP32, &seed);
    run_fill(p->v, K, TOLERANCE_FP32, &seed);
    p->args = (struct att_args){.size = sizeof p->args,
                                .family = ATT_ATTENTION_FORWARD,
                                .attention = {.q = tensor(p->q, LQ),
                                              .k = tensor(p->k, LK),
                                              .v = tensor(p->v, LK),
                                              .o = tensor(p->o, LQ),
                                              .lse = p->lse,
                                              .batch = 1,
                                              .heads = HEADS,
                                              .len_q = LQ,
                                              .len_kv = LK}};
    return p;
}

static void launch(att_session *session, att_kernel *kernel, struct problem *p) {
    cr_assert_eq(att_launch(kernel, &p->args, NULL), ATT_OK, "%s", att_message(session));
}

Test(dropout, seed_and_offset_may_lie_in_device_memory) {
    att_session *session = run_open();
    att_kernel *kernel = run_find(session, "family=attention_forward head_dim=8 dropout=1", NULL);
    struct problem *values = new_problem(session), *state = new_problem(session);
    values->args.attention.dropout_p = state->args.attention.dropout_p = 0.5f;
    values->args.attention.dropout_seed = UINT64_C(0x100000002);
    values->args.attention.dropout_offset = 77;
    state->state[0] = UINT64_C(0x100000002), state->state[1] = 77;
    state->args.attention.dropout_state = state->state;
    launch(session, kernel, values);
    launch(session, kernel, state);
    cr_expect_arr_eq(values->o, state->o, sizeof values->o);
    state->state[1]++; /* as between two replays of a graph */
    launch(session, kernel, state);
    cr_expect(memcmp(values->o, state->o, sizeof values->o));
    cr_expect_arr_eq(values->lse, state->lse, sizeof values->lse, "dropout leaves LSE alone");
    att_free(session, values);
    att_free(session, state);
    att_close(session);
}

Test(dropout, a_probability_of_0_drops_nothing) {
    att_session *session = run_open();
    struct problem *with = new_problem(session), *without = new_problem(session);
    with->args.attention.dropout_seed = 5;
    launch(session, run_find(session, "family=attention_forward head_dim=8 dropout=1", NULL), with);
    launch(session, run_find(session, "family=attention_forward head_dim=8", NULL), without);
    cr_expect_arr_eq(with->o, without->o, sizeof with->o);
    att_free(session, with);
    att_free(session, without);
    att_close(session);
}

static void expect_refusal(att_session *session, att_kernel *kernel, struct problem *p, const char *says) {
    p->o[0] = 7;
    cr_expect_eq(att_launch(kernel, &p->args, NULL), ATT_INVALID_ARGUMENT, "%s", says);
    cr_expect(strstr(att_message(session), says), "expected '%s' in '%s'", says, att_message(session));
    cr_expect_eq(p->o[0], 7, "nothing is written");
}

Test(dropout, arguments_that_cannot_be_are_refused_by_name) {
    static const float bad[] = {1, -0.25f, 1.5f, NAN, INFINITY};
    static const char *const says[] = {"dropout_p is 1, expected a probability", "dropout_p is -0.25",
                                       "dropout_p is 1.5", "dropout_p is", "dropout_p is inf"};
    att_session *session = run_open();
    att_kernel *kernel = run_find(session, "family=attention_forward head_dim=8 dropout=1", NULL);
    struct problem *p = new_problem(session);
    for (int i = 0; i < 5; i++) {
        p->args.attention.dropout_p = bad[i];
        expect_refusal(session, kernel, p, says[i]);
    }
    p->args.attention.dropout_p = 0.5f;
    p->args.attention.dropout_state = (const uint64_t *)((char *)p->state + 4);
    expect_refusal(session, kernel, p, "dropout_state");
    p->args.attention.dropout_state = NULL;
    expect_refusal(session, run_find(session, "family=attention_forward head_dim=8", NULL), p,
                   "find a kernel with dropout=1");
    att_free(session, p);
    att_close(session);
}

Test(dropout, kernels_without_it_say_so) {
    static const char *const schedules[] = {"algorithm=decode", "algorithm=multi_pass",
                                            "algorithm=flash_tiled loop_order=kv_outer"};
    att_session *session = run_open();
    att_kernel *kernel;
    for (int i = 0; i < 3; i++) {
        cr_expect_eq(att_find(session,
                              i ? "family=attention_forward dropout=1"
                                : "family=attention_forward dtype=bf16 dropout=1 target=sm_80",
                              schedules[i], &kernel),
                     ATT_UNSUPPORTED, "%s", schedules[i]);
        cr_expect(strstr(att_message(session), "dropout == 0"), "%s: %s", schedules[i], att_message(session));
    }
    cr_expect_eq(
        att_find(session, "family=attention_forward dtype=bf16 dropout=1 layout=padded append=1", NULL, &kernel),
        ATT_UNSUPPORTED);
    att_close(session);
}
