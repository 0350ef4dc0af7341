/* work/runs_of_lengths.cuh: every key of every sequence is counted once, however K/V tiles are assigned to
   blocks and warps. */
#include "attile.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 300, LEN_KV = 130, KV_HEADS = 2, HEADS = 4, D = 8, TILE = 16 };

static unsigned state;
static int below(int end) {
    state = state * 1664525u + 1013904223u;
    return (int)((state >> 8) % (unsigned)end);
}

static int any(int b) { return (void)b, below(LEN_KV + 1); }
static int mostly_none(int b) { return (void)b, below(8) ? 0 : below(LEN_KV + 1); }
static int mostly_short(int b) { return (void)b, below(8) ? below(TILE + 2) : LEN_KV; }
static int none(int b) { return (void)b, 0; }
static int long_first(int b) { return b == 0 ? LEN_KV : 1; }
static int full(int b) { return (void)b, LEN_KV; }
static int (*const draws[])(int b) = {any, mostly_none, mostly_short, none, long_first, full};

/* On the host device, device arrays are host memory. */
static uint16_t q[MOST * HEADS * D], k[MOST * KV_HEADS * LEN_KV * D], v[MOST * KV_HEADS * LEN_KV * D],
    o[MOST * HEADS * D];
static float lse[MOST * HEADS];
static int32_t lengths[MOST];
static _Alignas(256) char workspace[1 << 18];

static float from_bf16(uint16_t x) {
    uint32_t bits = (uint32_t)x << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* All scores are 0, so LSE is the logarithm of the number of keys. V is 1 in the column given by the key's tile modulo
   D, so O is the share of these tiles in the keys. */
static void expect_counted_once(int batch, const char *schedule, int draw, uint64_t seed) {
    for (int b = 0; b < batch; b++)
        for (int h = 0; h < HEADS; h++) {
            double expected = lengths[b] ? log(lengths[b]) : -INFINITY, got = (double)lse[b * HEADS + h];
            cr_assert(expected == got || fabs(expected - got) < 1e-5,
                      "%s, lengths %d, seed %d: lse of sequence %d of %d, head %d, length %d: %g, expected %g",
                      schedule, draw, (int)seed, b, batch, h, lengths[b], got, expected);
            double share[D] = {0};
            for (int key = 0; key < lengths[b]; key++)
                share[key / TILE % D] += 1.0 / lengths[b];
            for (int d = 0; d < D; d++) {
                double x = (double)from_bf16(o[(b * HEADS + h) * D + d]);
                cr_assert(fabs(x - share[d]) <= share[d] / 128,
                          "%s, lengths %d, seed %d: o of sequence %d: %g, expected %g", schedule, draw, (int)seed, b, x,
                          share[d]);
            }
        }
}

static void run(att_session *session, att_kernel *kernel, int batch) {
    struct att_args args = {.size = sizeof args,
                            .family = ATT_ATTENTION_FORWARD,
                            .attention = {.q = {q, HEADS * D, D, D},
                                          .k = {k, KV_HEADS * LEN_KV * D, LEN_KV * D, D},
                                          .v = {v, KV_HEADS * LEN_KV * D, LEN_KV * D, D},
                                          .o = {o, HEADS * D, D, D},
                                          .lse = lse,
                                          .batch = batch,
                                          .heads = HEADS,
                                          .kv_heads = KV_HEADS,
                                          .len_q = 1,
                                          .len_kv = LEN_KV,
                                          .lengths_kv = lengths}};
    size_t bytes;
    cr_assert_eq(att_workspace_size(kernel, &args, &bytes), ATT_OK, "%s", att_message(session));
    cr_assert_lt(bytes, sizeof workspace);
    memset(workspace, 0xff, bytes); /* NaN, and invalid counts */
    workspace[bytes] = 77;
    args.workspace = workspace, args.workspace_size = bytes;
    cr_assert_eq(att_launch(kernel, &args, NULL), ATT_OK, "%s", att_message(session));
    cr_assert_eq(workspace[bytes], 77);
}

/* With 2 to 6 multiprocessors, depending on the seed, warps have their own runs from at most 3 sequences on where a
   block has 2 warps, and from 12 on where it has 8. */
Test(runs, count_every_key_once) {
    static const char *const schedules[] = {"algorithm=decode block_n=16 threads=64",
                                            "algorithm=decode block_n=16 threads=256",
                                            "algorithm=decode block_n=32 threads=128 stages=3"};
    static const int batches[] = {1, 2, 3, 4, 5, 7, 8, 12, 31, 32, 33, 65, 128, 129, MOST};
    for (int i = 0; i < MOST * KV_HEADS * LEN_KV; i++)
        v[i * D + i % LEN_KV / TILE % D] = 0x3f80;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct att_options options = {.size = sizeof options,
                                      .device = ATT_DEVICE_HOST,
                                      .host_mode = ATT_HOST_FAST,
                                      .host_seed = seed,
                                      .no_disk_cache = 1};
        att_session *session;
        cr_assert_eq(att_open(&options, &session), ATT_OK);
        for (size_t s = 0; s < sizeof schedules / sizeof *schedules; s++) {
            att_kernel *kernel;
            cr_assert_eq(att_find(session, "family=attention_forward dtype=bf16 target=sm_80 head_dim=8 layout=padded",
                                  schedules[s], &kernel),
                         ATT_OK, "%s", att_message(session));
            for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
                int draw = (int)((i + seed + s) % (sizeof draws / sizeof *draws));
                for (int b = 0; b < batches[i]; b++)
                    lengths[b] = draws[draw](b);
                run(session, kernel, batches[i]);
                expect_counted_once(batches[i], schedules[s], draw, seed);
            }
        }
        att_close(session);
    }
}
