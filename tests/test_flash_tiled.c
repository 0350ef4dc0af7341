/* attention_flash_tiled.cu beyond its defaults on the ladder: every head size has a default that fits, and every way to
   divide a tile among threads gives the oracle's answer. */
#include "gen.h"
#include "helper_run.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUERIES_ON_CHIP "algorithm=flash_tiled loop_order=q_outer"

static bool fits(const struct template_set *set, int target, int dtype, int head_dim, int head_dim_v) {
    struct knobs knobs = knobs_default();
    struct variant variant;
    knobs.family = family_attention_forward;
    knobs.algorithm = algorithm_flash_tiled;
    knobs.loop_order = loop_order_q_outer;
    knobs.target = target;
    knobs.dtype = dtype;
    knobs.head_dim = head_dim;
    knobs.head_dim_v = head_dim_v;
    if (!variant_complete(set, &knobs, true, &variant))
        fprintf(stderr, "%s, head_dim %d, head_dim_v %d: %s\n", knob_word_name(KNOB_target, target), head_dim,
                head_dim_v, variant.reason);
    return variant.feasible;
}

Test(flash_tiled, every_head_size_has_sizes_that_fit_every_target) {
    static const int targets[] = {target_any, target_sm_80, target_sm_90a};
    static const int dtypes[] = {dtype_fp32, dtype_fp16, dtype_bf16};
    struct diag diag = {0};
    struct template_set *set = template_set_open(NULL, NULL, &diag);
    cr_assert_not_null(set);
    for (int t = 0; t < 3; t++) {
        for (int head_dim = 1; head_dim <= 256; head_dim++)
            cr_expect(fits(set, targets[t], dtypes[head_dim % 3], head_dim, head_dim));
        for (int head_dim = 8; head_dim <= 256; head_dim += 31) /* includes 256 */
            for (int head_dim_v = 1; head_dim_v <= 256; head_dim_v += 15)
                cr_expect(fits(set, targets[t], dtypes[head_dim_v % 3], head_dim, head_dim_v));
    }
    template_set_close(set);
}

static float *array(int64_t count) {
    float *values = calloc((size_t)count, sizeof *values);
    cr_assert_not_null(values);
    return values;
}

enum { HEADS = 2, KV_HEADS = 1, LEN_Q = 45 };

/* The last row of V holds a NaN, which under a causal mask only the last query may see. */
static void check(att_session *session, const char *schedule, const char *mask, const char *target, int head_dim,
                  int head_dim_v, int len_kv) {
    float *q = array(HEADS * LEN_Q * head_dim), *k = array(len_kv * head_dim), *v = array(len_kv * head_dim_v);
    float *o = array(HEADS * LEN_Q * head_dim_v), *lse = array(HEADS * LEN_Q);
    double *right = calloc((size_t)(HEADS * LEN_Q * head_dim_v), sizeof *right);
    double *slack = calloc((size_t)(HEADS * LEN_Q * head_dim_v), sizeof *slack);
    double right_lse[HEADS * LEN_Q], slack_lse[HEADS * LEN_Q];
    char problem[160];
    unsigned seed = 5;
    run_fill(q, HEADS * LEN_Q * head_dim, TOLERANCE_FP32, &seed);
    run_fill(k, len_kv * head_dim, TOLERANCE_FP32, &seed);
    run_fill(v, len_kv * head_dim_v, TOLERANCE_FP32, &seed);
    v[len_kv * head_dim_v - 1] = NAN;
    struct oracle_attention p = {
        q,
        k,
        v,
        1,
        HEADS,
        KV_HEADS,
        LEN_Q,
        len_kv,
        head_dim,
        head_dim_v,
        (double)(1 / sqrtf((float)head_dim)),
        .causal = !strcmp(mask, "causal"),
    };
    snprintf(problem, sizeof problem, "family=attention_forward dtype=fp32 mask=%s target=%s head_dim=%d head_dim_v=%d",
             mask, target, head_dim, head_dim_v);
    run_attention(session, run_find(session, problem, schedule), TOLERANCE_FP32, TOLERANCE_FP32, &p, o, lse, NULL);
    cr_assert(right && slack && oracle_attention(&p, right, right_lse));
    cr_assert(tolerance_attention(&p, TOLERANCE_FP32, TOLERANCE_FP32, right, right_lse, slack, slack_lse));
    for (int i = 0; i < HEADS * LEN_Q * head_dim_v; i++)
        cr_assert(tolerance_accepts(TOLERANCE_FP32, right[i], (double)o[i], slack[i]),
                  "%s, %s: o[%d][%d] is %.9g, not %.9g within %.2g", problem, schedule, i / head_dim_v, i % head_dim_v,
                  (double)o[i], right[i], slack[i]);
    for (int i = 0; i < HEADS * LEN_Q; i++)
        cr_assert(tolerance_accepts(TOLERANCE_FP32, right_lse[i], (double)lse[i], slack_lse[i]),
                  "%s, %s: lse[%d] is %.9g, not %.9g", problem, schedule, i, (double)lse[i], right_lse[i]);
    free(q);
    free(k);
    free(v);
    free(o);
    free(lse);
    free(right);
    free(slack);
}

Test(flash_tiled, every_split_of_a_tile_agrees_with_the_oracle) {
    static const char *const schedules[] = {
        QUERIES_ON_CHIP " block_m=32 block_n=16 thread_m=4 thread_n=4", /* 4 lanes per row */
        QUERIES_ON_CHIP " block_m=16 block_n=32 thread_m=2 thread_n=4", /* 8 */
        QUERIES_ON_CHIP " block_m=64 block_n=64 thread_m=8 thread_n=8",
        QUERIES_ON_CHIP " block_m=32 block_n=64 thread_m=1 thread_n=4",  /* 16, and many warps */
        QUERIES_ON_CHIP " block_m=24 block_n=96 thread_m=3 thread_n=12", /* no power of two */
    };
    enum { ONE_SHORT = 2 * 96 - 1 }; /* one short of whole tiles, for each of these sizes */
    att_session *session = run_open();
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++) {
        check(session, schedules[i], "causal", i % 2 ? "any" : "sm_80", 20, 36, 83);
        check(session, schedules[i], "none", i % 2 ? "sm_80" : "any", 33, 7, 83);
        check(session, schedules[i], "none", i % 2 ? "sm_80" : "any", 33, 7, ONE_SHORT);
    }
    att_close(session);
}

/* --- where rows begin --------------------------------------------------------------------------------------------- */

enum { BATCH = 2, LENGTH = 20, D = 8, ELEMENTS = 4096 };

/* Strides of contiguous rows, with extra elements between batches, heads and rows. */
static struct att_tensor place(char *memory, int bytes, int shift, int batch, int head, int row) {
    int64_t row_stride = D + row, head_stride = LENGTH * row_stride + head;
    return (struct att_tensor){memory + shift * bytes, HEADS * head_stride + batch, head_stride, row_stride};
}

static int64_t element(const struct att_tensor *tensor, int i) {
    int column = i % D, row = i / D % LENGTH, head = i / (D * LENGTH) % HEADS, batch = i / (D * LENGTH * HEADS);
    return batch * tensor->batch_stride + head * tensor->head_stride + row * tensor->row_stride + column;
}

/* Runs with Q, K, V and O where the tensors say. `o` gets O, element by element, as bits. */
static void run_placed(att_session *session, att_kernel *kernel, int bytes, char *const memory[4],
                       const struct att_tensor tensors[4], uint32_t o[BATCH * HEADS * LENGTH * D]) {
    static char cells[ELEMENTS * 4];
    const struct att_args args = {.size = sizeof args,
                                  .family = ATT_ATTENTION_FORWARD,
                                  .attention = {.q = tensors[0],
                                                .k = tensors[1],
                                                .v = tensors[2],
                                                .o = tensors[3],
                                                .batch = BATCH,
                                                .heads = HEADS,
                                                .kv_heads = HEADS,
                                                .len_q = LENGTH,
                                                .len_kv = LENGTH}};
    for (int t = 0; t < 3; t++) {
        unsigned seed = 7 + (unsigned)t;
        memset(cells, 0, sizeof cells);
        for (int i = 0; i < BATCH * HEADS * LENGTH * D; i++) {
            float x;
            run_fill(&x, 1, TOLERANCE_BF16, &seed);
            char *to = cells + ((char *)(uintptr_t)tensors[t].data - memory[t]) + element(&tensors[t], i) * bytes;
            memcpy(to, (char *)&x + 4 - bytes, (size_t)bytes); /* the upper half of x is the same number as bf16 */
        }
        cr_assert_eq(att_copy_in(session, memory[t], cells, sizeof cells), ATT_OK);
    }
    cr_assert_eq(att_launch(kernel, &args, NULL), ATT_OK, "%s", att_message(session));
    cr_assert_eq(att_copy_out(session, cells, memory[3], sizeof cells), ATT_OK);
    for (int i = 0; i < BATCH * HEADS * LENGTH * D; i++) {
        o[i] = 0;
        memcpy(&o[i], cells + ((char *)tensors[3].data - memory[3]) + element(&tensors[3], i) * bytes, (size_t)bytes);
    }
}

/* The kernel may read and write four elements at a time only where all rows begin at multiples of four. The host device
   refuses an unaligned vector. */
Test(flash_tiled, any_address_and_stride_gives_the_same_bits) {
    static const struct {
        int shift, batch, head, row;
    } places[] = {{0, 0, 0, 0}, {4, 4, 4, 4}, {1, 0, 0, 0}, {2, 0, 0, 0}, {0, 1, 0, 0},
                  {0, 2, 0, 0}, {0, 0, 1, 0}, {0, 0, 2, 0}, {0, 0, 0, 1}, {0, 0, 0, 2}};
    static const struct {
        const char *dtype;
        int bytes;
    } types[] = {{"fp32", 4}, {"bf16", 2}};
    static uint32_t expected[BATCH * HEADS * LENGTH * D], found[BATCH * HEADS * LENGTH * D];
    static const char *const targets[] = {"any", "sm_80"};
    att_session *session = run_open();
    char *memory[4];
    for (int t = 0; t < 4; t++)
        cr_assert_eq(att_alloc(session, (size_t)ELEMENTS * 4, (void **)&memory[t]), ATT_OK);
    for (int type = 0; type < 2; type++)
        for (int target = 0; target < 2; target++) {
            char problem[128];
            int bytes = types[type].bytes;
            snprintf(problem, sizeof problem, "family=attention_forward dtype=%s head_dim=%d mask=causal target=%s",
                     types[type].dtype, D, targets[target]);
            att_kernel *kernel = run_find(session, problem, QUERIES_ON_CHIP);
            for (size_t i = 0; i < sizeof places / sizeof *places; i++)
                for (int t = 0; t < 4; t++) {
                    struct att_tensor tensors[4];
                    for (int j = 0; j < 4; j++)
                        tensors[j] = place(memory[j], bytes, 0, 0, 0, 0);
                    tensors[t] =
                        place(memory[t], bytes, places[i].shift, places[i].batch, places[i].head, places[i].row);
                    run_placed(session, kernel, bytes, memory, tensors, i + (size_t)t == 0 ? expected : found);
                    cr_assert(i + (size_t)t == 0 || memcmp(found, expected, sizeof found) == 0,
                              "%s: tensor %d, place %d gives other bits", problem, t, (int)i);
                }
        }
    for (int t = 0; t < 4; t++)
        cr_assert_eq(att_free(session, memory[t]), ATT_OK);
    att_close(session);
}
