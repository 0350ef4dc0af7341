/* Splitting the keys of a Q tile. specs/attention_hopper_splits.yaml compares the results with the oracle. Here: equal
   bits from run to run, a sequence's bits whatever else is in the batch, the workspace, and what is refused. */
#include "helper_run.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { HEAD_DIM = 16, HEADS = 2, QUERIES = 70, KEYS = 4500, BATCH = 3 };

static const struct kernel {
    const char *problem, *schedule;
} kernels[] = {
    {"mask=causal target=sm_90a", "algorithm=flash_async block_m=64 block_n=16 splits=7"},
    {"mask=none target=sm_90a", "algorithm=flash_async block_m=128 block_n=32 splits=64 scheduler=per_tile"},
    {"mask=causal target=sm_80", "algorithm=flash_mma block_m=64 block_n=32 splits=3"},
};
enum { KERNELS = sizeof kernels / sizeof *kernels };

static float q[BATCH * HEADS * QUERIES * HEAD_DIM], k[BATCH * KEYS * HEAD_DIM], v[BATCH * KEYS * HEAD_DIM];

static void fill(void) {
    unsigned seed = 3;
    run_fill(q, BATCH * HEADS * QUERIES * HEAD_DIM, TOLERANCE_BF16, &seed);
    run_fill(k, BATCH * KEYS * HEAD_DIM, TOLERANCE_BF16, &seed);
    run_fill(v, BATCH * KEYS * HEAD_DIM, TOLERANCE_BF16, &seed);
}

static att_kernel *find(att_session *session, const char *problem, const char *schedule) {
    char text[200];
    snprintf(text, sizeof text, "family=attention_forward dtype=bf16 head_dim=%d %s", HEAD_DIM, problem);
    return run_find(session, text, schedule);
}

static void run(att_session *session, att_kernel *kernel, bool causal, int batch, int len_kv, float *o, float *lse) {
    struct oracle_attention p = {q, k, v, batch, HEADS, 1, QUERIES, len_kv, HEAD_DIM, HEAD_DIM, 1, .causal = causal};
    run_attention(session, kernel, TOLERANCE_BF16, TOLERANCE_BF16, &p, o, lse, NULL);
}

static att_session *open_seeded(unsigned seed) {
    struct att_options options = {
        .size = sizeof options, .device = ATT_DEVICE_HOST, .no_disk_cache = 1, .host_seed = seed};
    att_session *session;
    enum att_status status = att_open(&options, &session);
    cr_assert_eq(status, ATT_OK, "%s", att_message(session));
    return session;
}

static float o[2][BATCH * HEADS * QUERIES * HEAD_DIM], lse[2][BATCH * HEADS * QUERIES];

/* The seed decides the order of threads and the number of multiprocessors, which is four for both seeds. */
ParameterizedTestParameters(splits, equal_bits_from_run_to_run) {
    static int which[KERNELS] = {0, 1, 2};
    return cr_make_param_array(int, which, KERNELS);
}
ParameterizedTest(int *which, splits, equal_bits_from_run_to_run) {
    static const unsigned seeds[] = {0, 5};
    const struct kernel *kernel = &kernels[*which];
    fill();
    for (int i = 0; i < 2; i++) {
        att_session *session = open_seeded(seeds[i]);
        att_kernel *found = find(session, kernel->problem, kernel->schedule);
        run(session, found, strstr(kernel->problem, "causal"), 1, 500, o[i], lse[i]);
        att_close(session);
    }
    cr_expect_eq(memcmp(o[0], o[1], HEADS * QUERIES * HEAD_DIM * sizeof(float)), 0);
    cr_expect_eq(memcmp(lse[0], lse[1], HEADS * QUERIES * sizeof(float)), 0);
}

/* 32 parts, of which the second launch takes eight at a time. Scores grow from part to part, so l and O of earlier
   parts are rescaled. LSE is a sum in fp32 either way, of up to 500 terms: both are well within 1e-3 of each other. */
Test(splits, parts_with_growing_scores_combine) {
    fill();
    for (int key = 0; key < 500; key++)
        for (int i = 0; i < HEAD_DIM; i++)
            k[key * HEAD_DIM + i] = run_round(k[key * HEAD_DIM + i] * (float)(key / 16) / 8, TOLERANCE_BF16);
    static const char *const schedules[] = {"algorithm=flash_async block_m=64 block_n=16 splits=1",
                                            "algorithm=flash_async block_m=64 block_n=16 splits=64"};
    att_session *session = open_seeded(0);
    for (int i = 0; i < 2; i++)
        run(session, find(session, "mask=none target=sm_90a", schedules[i]), false, 1, 500, o[i], lse[i]);
    att_close(session);
    for (int i = 0; i < HEADS * QUERIES; i++)
        cr_expect_float_eq(lse[0][i], lse[1][i], 1e-3f, "row %d: %g, %g", i, (double)lse[0][i], (double)lse[1][i]);
    for (int i = 0; i < HEADS * QUERIES * HEAD_DIM; i++) /* weights and O are rounded to bf16, 2^-8 of |v| < 5 each */
        cr_expect_float_eq(o[0][i], o[1][i], 0.04f, "element %d: %g, %g", i, (double)o[0][i], (double)o[1][i]);
}

/* ... and on a GPU with a different number of multiprocessors. */
Test(splits, bits_of_a_sequence_do_not_depend_on_the_batch_when_invariant) {
    fill();
    for (int i = 0; i < 2; i++) {
        att_session *session = open_seeded(i ? 9 : 0);
        att_kernel *found = find(session, "mask=causal batch_invariant=1 target=sm_90a",
                                 "algorithm=flash_async block_m=128 block_n=64 splits=0");
        run(session, found, true, i ? BATCH : 1, KEYS, o[i], lse[i]);
        att_close(session);
    }
    cr_expect_eq(memcmp(o[0], o[1], HEADS * QUERIES * HEAD_DIM * sizeof(float)), 0);
    cr_expect_eq(memcmp(lse[0], lse[1], HEADS * QUERIES * sizeof(float)), 0);
}

static size_t workspace(att_session *session, const char *schedule, int64_t len_q, int64_t len_kv) {
    struct att_args args = {.size = sizeof args,
                            .family = ATT_ATTENTION_FORWARD,
                            .attention = {.batch = 1, .heads = HEADS, .kv_heads = 1, .len_q = len_q, .len_kv = len_kv}};
    size_t bytes;
    att_kernel *kernel = find(session, "target=sm_90a", schedule);
    cr_assert_eq(att_workspace_size(kernel, &args, &bytes), ATT_OK, "%s", att_message(session));
    return bytes;
}

/* O in fp32, and m and l, of every row of every part. */
Test(splits, the_workspace_has_room_for_the_parts_and_no_more) {
    enum { ROW = (HEAD_DIM + 2) * 4 };
    att_session *session = run_open();
    cr_expect_eq(workspace(session, "algorithm=flash_async block_n=16 splits=1", 50, 1000), 0);
    cr_expect_eq(workspace(session, "algorithm=flash_async block_n=16 splits=5", 50, 1000), 5 * HEADS * 50 * ROW);
    cr_expect_eq(workspace(session, "algorithm=flash_async block_n=16 splits=5", 50, 40), 3 * HEADS * 50 * ROW);
    cr_expect_eq(workspace(session, "algorithm=flash_async block_n=16 splits=5", 50, 16), 0, "a single tile of keys");
    cr_expect_eq(workspace(session, "algorithm=flash_async block_n=16 splits=5", 50, 0), 0);
    cr_expect_eq(workspace(session, "algorithm=flash_async block_n=16 splits=0", 5000, 4000), 0, "many Q tiles");
    cr_expect_eq(workspace(session, "algorithm=flash_async block_n=16 splits=0", 5, 8000), 2 * HEADS * 5 * ROW,
                 "two Q tiles on the four multiprocessors of the host device");
    att_close(session);
}

Test(splits, bad_input_is_refused) {
    att_session *session = run_open();
    att_kernel *kernel;
    const char *problem = "family=attention_forward dtype=bf16 head_dim=16 target=sm_90a";
    cr_expect_eq(att_find(session, problem, "algorithm=flash_async splits=65", &kernel), ATT_INVALID_TEXT);
    cr_expect(strstr(att_message(session), "splits") && strstr(att_message(session), "64"), "%s", att_message(session));
    cr_expect_neq(att_find(session, "family=attention_forward head_dim=16", "algorithm=flash_tiled splits=2", &kernel),
                  ATT_OK);
    cr_expect(strstr(att_message(session), "splits is given as 2"), "%s", att_message(session));

    fill();
    kernel = find(session, "target=sm_90a", "algorithm=flash_async splits=2 block_n=16");
    uint16_t *memory;
    cr_assert_eq(att_alloc(session, 1 << 18, (void **)&memory), ATT_OK);
    struct att_tensor at[4];
    for (int i = 0; i < 4; i++)
        at[i] = (struct att_tensor){memory + i * 64 * HEAD_DIM, 0, 0, HEAD_DIM};
    struct att_args args = {
        .size = sizeof args,
        .family = ATT_ATTENTION_FORWARD,
        .attention = {
            .q = at[0], .k = at[1], .v = at[2], .o = at[3], .batch = 1, .heads = 1, .len_q = 8, .len_kv = 64}};
    cr_expect_eq(att_launch(kernel, &args, NULL), ATT_INVALID_ARGUMENT);
    cr_expect(strstr(att_message(session), "workspace: it is null with 0 bytes, expected 1152"), "%s",
              att_message(session));
    args.attention.len_kv = 16;
    cr_expect_eq(att_launch(kernel, &args, NULL), ATT_OK, "one tile of keys is not split: %s", att_message(session));
    cr_expect_eq(att_synchronize(session), ATT_OK);

    /* what a launch decides for itself depends on the workspace that it has */
    kernel = find(session, "target=sm_90a", "algorithm=flash_async splits=0 block_n=64");
    args.attention.len_kv = 1500;
    args.attention.k.data = args.attention.v.data = memory + (1 << 14);
    size_t bytes;
    cr_assert_eq(att_workspace_size(kernel, &args, &bytes), ATT_OK);
    cr_expect_eq(bytes, 2 * 8 * (HEAD_DIM + 2) * 4);
    cr_expect_eq(att_launch(kernel, &args, NULL), ATT_OK, "%s", att_message(session));
    cr_expect_eq(att_synchronize(session), ATT_OK);
    args.workspace_size = bytes - 1;
    args.workspace = (void *)(((uintptr_t)memory + (1 << 17) + 255) / 256 * 256);
    cr_expect_eq(att_launch(kernel, &args, NULL), ATT_INVALID_ARGUMENT, "room that is too small is a mistake");
    args.workspace_size = bytes;
    cr_expect_eq(att_launch(kernel, &args, NULL), ATT_OK, "%s", att_message(session));
    cr_expect_eq(att_synchronize(session), ATT_OK);
    att_free(session, memory);
    att_close(session);
}
