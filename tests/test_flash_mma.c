/* attention_flash_mma.cu: how its copies handle tensors at any address, what it refuses, and its shared memory. */
#include "attile.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROBLEM "family=attention_forward dtype=bf16 target=sm_80 mask=causal "

enum { H = 2, LQ = 70, LK = 90, MOST = 1 << 17 };

static att_session *open_host(enum att_host_mode mode, uint64_t seed) {
    att_session *session;
    struct att_options options = {
        .size = sizeof options, .device = ATT_DEVICE_HOST, .host_mode = mode, .host_seed = seed, .no_disk_cache = 1};
    cr_assert_eq(att_open(&options, &session), ATT_OK);
    return session;
}

static att_kernel *find(att_session *session, const char *problem, const char *schedule) {
    att_kernel *kernel;
    cr_assert_eq(att_find(session, problem, schedule, &kernel), ATT_OK, "%s", att_message(session));
    return kernel;
}

/* Rows of `columns` elements, with `gap` elements between them, from `shift` elements after an aligned address. */
struct place {
    int gap, shift;
};

static uint16_t *put(att_session *session, uint16_t **base, int rows, int columns, struct place at, unsigned seed) {
    uint16_t *host = malloc(2 * MOST);
    int pitch = columns + at.gap;
    cr_assert(host && at.shift + rows * pitch < MOST);
    memset(host, 0xff, 2 * MOST); /* NaN between the rows */
    for (int row = 0; row < rows; row++)
        for (int i = 0; i < columns; i++) {
            float x = (float)((seed = seed * 1664525 + 1013904223) >> 8) / 0x1p23f - 1;
            uint32_t bits;
            memcpy(&bits, &x, 4);
            host[at.shift + row * pitch + i] = (uint16_t)(bits >> 16);
        }
    cr_assert_eq(att_alloc(session, 2 * MOST, (void **)base), ATT_OK);
    cr_assert_eq(att_copy_in(session, *base, host, 2 * MOST), ATT_OK);
    free(host);
    return *base + at.shift;
}

static struct att_tensor tensor(uint16_t *data, int rows, int columns, struct place at) {
    int64_t pitch = columns + at.gap;
    return (struct att_tensor){data, H * rows * pitch, rows * pitch, pitch};
}

/* Computes O and returns it without gaps. */
static void run(att_session *session, att_kernel *kernel, int d, int d_v, struct place at, float scale, uint16_t *o) {
    uint16_t *base[4], *q = put(session, &base[0], H * LQ, d, at, 1), *k = put(session, &base[1], H * LK, d, at, 2),
                       *v = put(session, &base[2], H * LK, d_v, at, 3),
                       *out = put(session, &base[3], H * LQ, d_v, at, 4);
    struct att_args args = {.size = sizeof args,
                            .family = ATT_ATTENTION_FORWARD,
                            .attention = {.q = tensor(q, LQ, d, at),
                                          .k = tensor(k, LK, d, at),
                                          .v = tensor(v, LK, d_v, at),
                                          .o = tensor(out, LQ, d_v, at),
                                          .batch = 1,
                                          .heads = H,
                                          .kv_heads = H,
                                          .len_q = LQ,
                                          .len_kv = LK,
                                          .scale = scale}};
    cr_assert_eq(att_launch(kernel, &args, NULL), ATT_OK, "%s", att_message(session));
    static uint16_t all[MOST];
    cr_assert_eq(att_copy_out(session, all, base[3], sizeof all), ATT_OK);
    for (int row = 0; row < H * LQ; row++) {
        memcpy(o + row * d_v, all + at.shift + row * (d_v + at.gap), 2 * (size_t)d_v);
        for (int i = 0; i < at.gap && row + 1 < H * LQ; i++)
            cr_assert_eq(all[at.shift + row * (d_v + at.gap) + d_v + i], 0xffff, "written beside row %d", row);
    }
    for (int i = 0; i < 4; i++)
        att_free(session, base[i]);
}

/* Copies in pieces of 16, 8, 4 and 2 bytes give the same bits. */
static void check_places(const char *problem, const char *schedule, int d, int d_v) {
    static const struct place places[] = {{8, 0}, {4, 0}, {2, 0}, {1, 0}, {0, 8}, {0, 4}, {0, 2}, {0, 1}, {3, 5}};
    static uint16_t aligned[MOST], o[MOST];
    att_session *session = open_host(ATT_HOST_CHECK, 0);
    att_kernel *kernel = find(session, problem, schedule);
    run(session, kernel, d, d_v, (struct place){0, 0}, 0.3f, aligned);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        run(session, kernel, d, d_v, places[i], 0.3f, o);
        cr_expect_eq(memcmp(o, aligned, 2 * H * LQ * (size_t)d_v), 0, "gap %d, shift %d", places[i].gap,
                     places[i].shift);
    }
    att_close(session);
}

Test(flash_mma, gives_the_same_bits_wherever_tensors_lie) {
    check_places(PROBLEM "head_dim=64", "algorithm=flash_mma stages=2", 64, 64);
    check_places(PROBLEM "head_dim=40 head_dim_v=72", "algorithm=flash_mma stages=1 block_m=64 threads=128", 40, 72);
    check_places(PROBLEM "head_dim=59 head_dim_v=67", "algorithm=flash_mma stages=3", 59, 67);
}

Test(flash_mma, gives_the_same_bits_whenever_copies_land) {
    static uint16_t first[MOST], o[MOST];
    for (uint64_t seed = 0; seed < 6; seed++) {
        att_session *session = open_host(ATT_HOST_CHECK, seed);
        run(session, find(session, PROBLEM "head_dim=64", "algorithm=flash_mma"), 64, 64, (struct place){0, 0}, 0.3f,
            seed ? o : first);
        cr_expect(seed == 0 || memcmp(o, first, 2 * H * LQ * 64) == 0, "seed %d", (int)seed);
        att_close(session);
    }
}

/* scale Q K^T = |scale| (-Q) K^T, in shared memory and in registers. */
Test(flash_mma, takes_a_negative_scale) {
    static const char *const schedules[] = {"algorithm=flash_mma", "algorithm=flash_mma q_in=q_registers"};
    static uint16_t o[2][MOST];
    att_session *session = open_host(ATT_HOST_CHECK, 0), *plain = open_host(ATT_HOST_CHECK, 0);
    run(plain, find(plain, "family=attention_forward dtype=bf16 mask=causal head_dim=64", "algorithm=flash"), 64, 64,
        (struct place){0, 0}, -0.2f, o[1]);
    for (int i = 0; i < 2; i++) {
        run(session, find(session, PROBLEM "head_dim=64", schedules[i]), 64, 64, (struct place){0, 0}, -0.2f, o[0]);
        for (int j = 0; j < H * LQ * 64; j++) {
            uint32_t a = (uint32_t)o[0][j] << 16, b = (uint32_t)o[1][j] << 16;
            float x, y;
            memcpy(&x, &a, 4);
            memcpy(&y, &b, 4);
            cr_assert(fabsf(x - y) < 0.02f, "%s, %d: %g, not %g", schedules[i], j, x, y);
        }
    }
    att_close(session);
    att_close(plain);
}

Test(flash_mma, has_no_bank_conflicts) {
    static const int dims[] = {8, 24, 40, 48, 64, 72, 80, 96, 112, 128, 192, 256};
    static uint16_t o[MOST];
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        char problem[128];
        struct att_counters counters = {.size = sizeof counters};
        att_session *session = open_host(ATT_HOST_CHECK, 0);
        snprintf(problem, sizeof problem, PROBLEM "head_dim=%d", dims[i]);
        run(session, find(session, problem, "algorithm=flash_mma"), dims[i], dims[i], (struct place){0, 0}, 0.1f, o);
        cr_assert_eq(att_counters_read(session, &counters, 0), ATT_OK);
        cr_expect_eq(counters.shared_conflicts, 0, "head_dim %d: %d", dims[i], (int)counters.shared_conflicts);
        cr_expect_gt(counters.shared_read, 0);
        att_close(session);
    }
}

Test(flash_mma, says_what_it_cannot_do) {
    static const struct {
        const char *problem, *schedule, *words;
    } cases[] = {
        {"family=attention_forward dtype=fp32 target=sm_80", "algorithm=flash_mma", "dtype is fp32, precision is fp32"},
        {PROBLEM "precision=tf32", "algorithm=flash_mma", "dtype is bf16, precision is tf32"},
        {"family=attention_forward precision=tf32 target=sm_80", "algorithm=flash_mma q_in=q_registers",
         "q_in is q_registers"},
        {"family=attention_forward precision=tf32x3 target=sm_80", "algorithm=flash_mma block_n=96", "block_n is 96"},
        {"family=attention_forward precision=tf32x3", "algorithm=flash_tiled",
         "precision is given as tf32x3, and attention_flash_tiled.cu does not use it"},
        {"family=attention_forward dtype=bf16 target=any", "algorithm=flash_mma", "target is any"},
        {"family=attention_forward dtype=bf16 target=sm_80 head_dim=257", "algorithm=flash_mma", "head_dim"},
        {PROBLEM, "algorithm=flash_mma block_m=96", "block_m is 96"},
        {PROBLEM, "algorithm=flash_mma block_m=256 threads=128", "block_m is 256, threads is 128"},
        {PROBLEM, "algorithm=flash_mma block_n=40", "block_n is 40"},
        {PROBLEM "score=softcap(30)", "algorithm=flash_mma rescale=from_sum", "score_form is tanh"},
        {PROBLEM, "algorithm=flash_mma rescale=lazy overlap=halves", "overlap is halves, rescale is lazy"},
        {PROBLEM, "algorithm=flash_mma rescale=from_sum overlap=output block_n=16", "overlap is output"},
        {PROBLEM, "algorithm=flash_mma overlap=both", "overlap is both"},
        {PROBLEM "head_dim=256", "algorithm=flash_mma block_m=128 threads=128", "columns_v is 256"},
        {"family=attention_forward dtype=bf16 head_dim=256 target=sm_86",
         "algorithm=flash_mma block_m=128 threads=256 block_n=64 stages=2",
         "bytes of shared memory are not within 0 to 101376 of target sm_86"},
        {"family=attention_forward dtype=bf16 score=softcap(30) target=sm_80", "algorithm=flash_mma pack_gqa=1",
         "pack_gqa is 1"},
    };
    att_session *session = open_host(ATT_HOST_CHECK, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        att_kernel *kernel;
        cr_expect_neq(att_find(session, cases[i].problem, cases[i].schedule, &kernel), ATT_OK, "%s", cases[i].schedule);
        cr_expect(strstr(att_message(session), cases[i].words), "%s: %s", cases[i].words, att_message(session));
    }
    att_close(session);
}

Test(flash_mma, packs_no_more_than_64_heads) {
    enum { HEADS = 65, D = 8 };
    static const char *const schedules[][2] = {
        {PROBLEM "head_dim=8", "algorithm=flash_mma pack_gqa=1"},
        {"family=attention_forward dtype=bf16 target=sm_90a mask=causal head_dim=8",
         "algorithm=flash_async pack_gqa=1"}};
    att_session *session = open_host(ATT_HOST_CHECK, 0);
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++) {
        att_kernel *kernel = find(session, schedules[i][0], schedules[i][1]);
        unsigned short *memory;
        cr_assert_eq(att_alloc(session, 2 * HEADS * D * sizeof *memory, (void **)&memory), ATT_OK);
        for (int j = 0; j < HEADS * D; j++)
            memory[j] = (unsigned short)(0x3f80 + j % D); /* in bf16, from 1 on; with only one key, O is V */
        struct att_tensor all = {memory, HEADS * D, D, D}, one = {memory, D, D, D},
                          out = {memory + HEADS * D, HEADS * D, D, D};
        struct att_args args = {.size = sizeof args,
                                .family = ATT_ATTENTION_FORWARD,
                                .attention = {.q = all,
                                              .k = one,
                                              .v = one,
                                              .o = out,
                                              .batch = 1,
                                              .heads = HEADS,
                                              .kv_heads = 1,
                                              .len_q = 1,
                                              .len_kv = 1}};
        cr_expect_eq(att_launch(kernel, &args, NULL), ATT_OK, "%s", att_message(session));
        for (int j = 0; j < HEADS * D; j++)
            cr_expect_eq(memory[HEADS * D + j], memory[j % D], "%s: head %d", schedules[i][1], j / D);
        att_free(session, memory);
    }
    att_close(session);
}
