/* attention_decode.cu: what it refuses, and that neither the order of blocks nor the time at which copies land
   changes a bit. */
#include "attile.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROBLEM "family=attention_forward dtype=bf16 target=sm_80 "

static att_session *open_host(uint64_t seed) {
    att_session *session;
    struct att_options options = {
        .size = sizeof options, .device = ATT_DEVICE_HOST, .host_seed = seed, .no_disk_cache = 1};
    cr_assert_eq(att_open(&options, &session), ATT_OK);
    return session;
}

static att_kernel *find(att_session *session, const char *problem, const char *schedule) {
    att_kernel *kernel;
    cr_assert_eq(att_find(session, problem, schedule, &kernel), ATT_OK, "%s", att_message(session));
    return kernel;
}

enum place_of_v { AT_V, AT_K, AT_NULL };

/* Runs the kernel with all tensors in one block of memory, O at its start. Returns the status; `o` gets O. */
static enum att_status run_at(att_session *session, att_kernel *kernel, struct att_attention_args a, enum place_of_v v,
                              uint16_t *o, size_t size) {
    enum { ELEMENTS = 1 << 15 };
    static uint16_t host[ELEMENTS];
    uint16_t *memory;
    void *workspace = NULL;
    size_t bytes;
    unsigned seed = 1;
    for (int i = 0; i < ELEMENTS; i++) { /* about 2^-7 to 2 */
        seed = seed * 1664525 + 1013904223;
        host[i] = (uint16_t)(0x3c00 | seed >> 23 | (seed & 1) << 15);
    }
    cr_assert_eq(att_alloc(session, sizeof host, (void **)&memory), ATT_OK);
    cr_assert_eq(att_copy_in(session, memory, host, sizeof host), ATT_OK);
    a.o.data = memory, a.q.data = memory + ELEMENTS / 4, a.k.data = memory + ELEMENTS / 2;
    a.v.data = v == AT_V ? memory + ELEMENTS / 4 * 3 : v == AT_K ? a.k.data : NULL;
    struct att_args args = {.size = sizeof args, .family = ATT_ATTENTION_FORWARD, .attention = a};
    cr_assert_eq(att_workspace_size(kernel, &args, &bytes), ATT_OK, "%s", att_message(session));
    if (bytes)
        cr_assert_eq(att_alloc(session, bytes, &workspace), ATT_OK);
    args.workspace = workspace, args.workspace_size = bytes;
    enum att_status status = att_launch(kernel, &args, NULL);
    if (status == ATT_OK)
        cr_assert_eq(att_copy_out(session, o, memory, size), ATT_OK);
    att_free(session, memory);
    att_free(session, workspace);
    return status;
}

static enum att_status run(att_session *session, att_kernel *kernel, struct att_attention_args a, uint16_t *o,
                           size_t size) {
    return run_at(session, kernel, a, AT_V, o, size);
}

/* The seed selects 2 to 6 multiprocessors, which moves the ends of runs. With the same number of them
   all bits agree. */
Test(decode, gives_the_same_bits_whenever_copies_land) {
    enum { B = 3, HKV = 2, G = 3, LQ = 2, LK = 150, D = 8, SIZE = B * HKV * G * LQ * D };
    const struct att_attention_args a = {.q = {NULL, HKV * G * LQ * D, LQ * D, D},
                                         .k = {NULL, HKV * LK * D, LK * D, D},
                                         .v = {NULL, HKV * LK * D, LK * D, D},
                                         .o = {NULL, HKV * G * LQ * D, LQ * D, D},
                                         .batch = B,
                                         .heads = HKV * G,
                                         .kv_heads = HKV,
                                         .len_q = LQ,
                                         .len_kv = LK};
    static uint16_t first[5][SIZE], o[SIZE];
    for (uint64_t seed = 1; seed < 16; seed++) {
        att_session *session = open_host(seed);
        att_kernel *kernel = find(session, PROBLEM "head_dim=8 mask=causal", "algorithm=decode block_n=16 threads=64");
        cr_assert_eq(run(session, kernel, a, o, sizeof o), ATT_OK, "%s", att_message(session));
        if (seed < 6)
            memcpy(first[seed % 5], o, sizeof o);
        cr_expect_eq(memcmp(first[seed % 5], o, sizeof o), 0, "seed %d", (int)seed);
        att_close(session);
    }
}

Test(decode, says_what_it_cannot_do) {
    static const struct {
        const char *problem, *schedule, *words;
    } cases[] = {
        {"family=attention_forward dtype=fp32 target=sm_80", "algorithm=decode", "dtype is fp32"},
        {"family=attention_forward dtype=bf16 target=any", "algorithm=decode", "target is any"},
        {PROBLEM, "algorithm=decode block_m=64", "block_m is 64"},
        {PROBLEM, "algorithm=decode block_n=48", "block_n is 48"},
        {PROBLEM, "algorithm=decode threads=96", "threads is 96"},
        {PROBLEM "head_dim=256", "algorithm=decode block_m=16", "head_dim_v is 256"},
        {PROBLEM "head_dim=256", "algorithm=decode block_m=32", "row_groups is 4"},
        {PROBLEM "head_dim=256", "algorithm=decode threads=256", "bytes of shared memory are not within 0 to 166912"},
        {PROBLEM "head_dim=64 head_dim_v=128 shared_kv=1", "algorithm=decode", "head_dim_v is 128"},
        {PROBLEM, "algorithm=decode rescale=lazy", "rescale"},
    };
    att_session *session = open_host(0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        att_kernel *kernel;
        cr_expect_neq(att_find(session, cases[i].problem, cases[i].schedule, &kernel), ATT_OK, "%s", cases[i].schedule);
        cr_expect(strstr(att_message(session), cases[i].words), "%s: %s", cases[i].words, att_message(session));
    }
    att_close(session);
}

/* V in K: the kernel reads V from the tile of K, and `v` is null or points there. */
Test(decode, takes_values_from_keys) {
    enum { HEADS = 3, LK = 70, D = 96, DV = 64, SIZE = HEADS * DV };
    struct att_attention_args a = {.q = {NULL, HEADS * D, D, D},
                                   .k = {NULL, LK * D, LK * D, D},
                                   .v = {NULL, LK * D, LK * D, D},
                                   .o = {NULL, HEADS * DV, DV, DV},
                                   .batch = 1,
                                   .heads = HEADS,
                                   .kv_heads = 1,
                                   .len_q = 1,
                                   .len_kv = LK};
    static uint16_t separate[SIZE], shared[SIZE], null[SIZE];
    att_session *session = open_host(0);
    att_kernel *two = find(session, PROBLEM "head_dim=96 head_dim_v=64", "algorithm=decode");
    att_kernel *one = find(session, PROBLEM "head_dim=96 head_dim_v=64 shared_kv=1", "algorithm=decode");
    cr_expect_eq(run_at(session, two, a, AT_K, separate, sizeof separate), ATT_OK, "%s", att_message(session));
    cr_expect_eq(run_at(session, one, a, AT_K, shared, sizeof shared), ATT_OK, "%s", att_message(session));
    cr_expect_eq(run_at(session, one, a, AT_NULL, null, sizeof null), ATT_OK, "%s", att_message(session));
    cr_expect_eq(memcmp(separate, shared, sizeof shared), 0);
    cr_expect_eq(memcmp(separate, null, sizeof null), 0);
    cr_expect_eq(run_at(session, one, a, AT_V, NULL, 0), ATT_INVALID_ARGUMENT);
    cr_expect(strstr(att_message(session), "with shared_kv=1 V is the first head_dim_v columns of K"), "%s",
              att_message(session));
    a.v.row_stride++;
    cr_expect_eq(run_at(session, one, a, AT_K, NULL, 0), ATT_INVALID_ARGUMENT);
    att_close(session);
}

/* --- batch_invariant ---------------------------------------------------------------------------------------------- */

enum { INVARIANT_B = 3, INVARIANT_G = 3, INVARIANT_LQ = 2, INVARIANT_D = 8, INVARIANT_PAGE = 16, INVARIANT_KV = 2112 };
enum { INVARIANT_ROW = INVARIANT_G * INVARIANT_D, INVARIANT_PAGES = INVARIANT_KV / INVARIANT_PAGE };

/* A batch of three sequences in device memory. */
struct invariant_batch {
    uint16_t *q, *k, *o; /* V is K */
    int32_t *lengths, *cu_q, *cu_kv, *pages;
};

static void *on_device(att_session *session, const void *from, size_t bytes) {
    void *memory;
    cr_assert_eq(att_alloc(session, bytes, &memory), ATT_OK);
    cr_assert_eq(att_copy_in(session, memory, from, bytes), ATT_OK);
    return memory;
}

static const int32_t invariant_lengths[INVARIANT_B] = {1500, 70, 2100};

static struct invariant_batch make_batch(att_session *session) {
    static uint16_t k[INVARIANT_B * INVARIANT_KV * INVARIANT_D];
    uint16_t q[INVARIANT_B * INVARIANT_LQ * INVARIANT_ROW];
    int32_t cu_q[INVARIANT_B + 1] = {0}, cu_kv[INVARIANT_B + 1] = {0}, pages[INVARIANT_B * INVARIANT_PAGES];
    unsigned seed = 1;
    for (size_t i = 0; i < sizeof k / sizeof *k; i++) { /* about 2^-7 to 2 */
        seed = seed * 1664525 + 1013904223;
        k[i] = (uint16_t)(0x3c00 | seed >> 23 | (seed & 1) << 15);
        q[i % (sizeof q / sizeof *q)] = k[i];
    }
    for (int b = 0; b < INVARIANT_B; b++) {
        cu_q[b + 1] = cu_q[b] + INVARIANT_LQ;
        cu_kv[b + 1] = cu_kv[b] + invariant_lengths[b];
    }
    for (int i = 0; i < INVARIANT_B * INVARIANT_PAGES; i++)
        pages[i] = i * 5 % (INVARIANT_B * INVARIANT_PAGES);
    return (struct invariant_batch){.q = on_device(session, q, sizeof q),
                                    .k = on_device(session, k, sizeof k),
                                    .o = on_device(session, q, sizeof q),
                                    .lengths = on_device(session, invariant_lengths, sizeof invariant_lengths),
                                    .cu_q = on_device(session, cu_q, sizeof cu_q),
                                    .cu_kv = on_device(session, cu_kv, sizeof cu_kv),
                                    .pages = on_device(session, pages, sizeof pages)};
}

static void free_batch(att_session *session, const struct invariant_batch *m) {
    void *const memory[] = {m->q, m->k, m->o, m->lengths, m->cu_q, m->cu_kv, m->pages};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        att_free(session, memory[i]);
}

/* Computes `count` sequences of the batch from `first` on. */
static void attend(att_session *session, att_kernel *kernel, const struct invariant_batch *m, bool ragged, bool paged,
                   int first, int count, uint16_t *o) {
    enum { Q = INVARIANT_LQ * INVARIANT_ROW };
    struct att_attention_args a = {.q = {m->q + first * Q, Q, INVARIANT_D, INVARIANT_ROW},
                                   .o = {m->o + first * Q, Q, INVARIANT_D, INVARIANT_ROW},
                                   .batch = count,
                                   .heads = INVARIANT_G,
                                   .kv_heads = 1,
                                   .len_q = INVARIANT_LQ,
                                   .len_kv = INVARIANT_KV};
    int64_t rows = paged ? INVARIANT_PAGE : ragged ? 0 : INVARIANT_KV, from = 0;
    int32_t cu_q[2] = {0, INVARIANT_LQ}, cu_kv[2] = {0, invariant_lengths[first]};
    void *own_q = on_device(session, cu_q, sizeof cu_q), *own_kv = on_device(session, cu_kv, sizeof cu_kv);
    if (paged) {
        a.page_table = m->pages + first * INVARIANT_PAGES;
        a.page_table_row_stride = INVARIANT_PAGES;
        a.pages = INVARIANT_B * INVARIANT_PAGES;
        a.lengths_kv = m->lengths + first;
    } else if (ragged) {
        for (int b = 0; b < first; b++)
            from += invariant_lengths[b];
        for (int b = first; b < first + count; b++)
            a.total_kv += invariant_lengths[b];
        a.cu_seqlens_kv = count == 1 ? own_kv : m->cu_kv;
    } else {
        from = (int64_t)first * INVARIANT_KV;
        a.lengths_kv = m->lengths + first;
    }
    if (ragged) {
        a.cu_seqlens_q = count == 1 ? own_q : m->cu_q;
        a.total_q = count * INVARIANT_LQ;
    }
    a.k = a.v = (struct att_tensor){m->k + from * INVARIANT_D, rows * INVARIANT_D, INVARIANT_D, INVARIANT_D};
    struct att_args args = {.size = sizeof args, .family = ATT_ATTENTION_FORWARD, .attention = a};
    size_t bytes;
    void *workspace = NULL;
    cr_assert_eq(att_workspace_size(kernel, &args, &bytes), ATT_OK, "%s", att_message(session));
    cr_assert_eq(att_alloc(session, bytes, &workspace), ATT_OK);
    args.workspace = workspace, args.workspace_size = bytes;
    cr_assert_eq(att_launch(kernel, &args, NULL), ATT_OK, "%s", att_message(session));
    cr_assert_eq(att_copy_out(session, o, m->o + first * Q, (size_t)count * Q * sizeof *o), ATT_OK);
    att_free(session, workspace);
    att_free(session, own_q);
    att_free(session, own_kv);
}

/* Each sequence alone, on devices of 4 and of 2 to 6 multiprocessors, has the same bits as in the batch. */
Test(decode, gives_a_sequence_the_same_bits_in_every_batch) {
    static const struct {
        const char *problem;
        bool ragged, paged;
    } layouts[] = {{"layout=padded", false, false},
                   {"layout=padded page_size=16", false, true},
                   {"layout=ragged", true, false},
                   {"layout=ragged page_size=16", true, true}};
    enum { Q = INVARIANT_LQ * INVARIANT_ROW };
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        for (uint64_t seed = 0; seed < 2; seed++) {
            uint16_t all[INVARIANT_B * Q], one[Q];
            char problem[128];
            att_session *session = open_host(seed);
            snprintf(problem, sizeof problem, PROBLEM "head_dim=8 mask=causal batch_invariant=1 %s",
                     layouts[i].problem);
            att_kernel *kernel = find(session, problem, "algorithm=decode block_n=16 threads=64");
            struct invariant_batch batch = make_batch(session);
            attend(session, kernel, &batch, layouts[i].ragged, layouts[i].paged, 0, INVARIANT_B, all);
            for (int b = 0; b < INVARIANT_B; b++) {
                attend(session, kernel, &batch, layouts[i].ragged, layouts[i].paged, b, 1, one);
                cr_expect_eq(memcmp(one, all + b * Q, sizeof one), 0, "%s: sequence %d", layouts[i].problem, b);
            }
            free_batch(session, &batch);
            att_close(session);
        }
}

Test(decode, refuses_more_tiles_than_it_can_count) {
    const struct att_attention_args a = {.q = {NULL, 8, 8, 8},
                                         .k = {NULL, 0, 8, 8},
                                         .v = {NULL, 0, 8, 8},
                                         .o = {NULL, 8, 8, 8},
                                         .batch = 1000,
                                         .heads = 1,
                                         .kv_heads = 1,
                                         .len_q = 1,
                                         .len_kv = 1 << 27};
    att_session *session = open_host(0);
    att_kernel *kernel = find(session, PROBLEM "head_dim=8", "algorithm=decode");
    cr_expect_eq(run(session, kernel, a, NULL, 0), ATT_INVALID_ARGUMENT);
    cr_expect(strstr(att_message(session), "these sizes take 4194304000 tiles of 8 rows of Q by 32 keys"), "%s",
              att_message(session));
    att_close(session);
}
