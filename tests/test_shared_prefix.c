/* att_launch_shared_prefix: the answer is that of each sequence with the prefix before its own keys. */
#include "helper_run.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 4, KV = 2, D = 16, BATCH = 3, PREFIX = 21, OWN = 11 };

/* Number of queries and of own keys of each sequence. */
static const int ragged_q[BATCH] = {5, 1, 3}, ragged_kv[BATCH] = {11, 1, 3}, single_q[BATCH] = {1, 1, 1};

struct data {
    int tokens, keys;
    float q[BATCH * OWN * HEADS * D], k[BATCH * OWN * KV * D], v[BATCH * OWN * KV * D]; /* (rows, heads, D) */
    float prefix_k[PREFIX * KV * D], prefix_v[PREFIX * KV * D];
    float o[BATCH * OWN * HEADS * D], lse[HEADS * BATCH * OWN];
    struct bytes { /* K and V as int8, for 8-bit tests: the numbers above are codes times scales */
        int8_t code[BATCH * OWN * KV * D];
        float scale[BATCH * OWN * KV]; /* (rows, heads), (heads) or one number */
    } bytes_k, bytes_v, prefix_bytes_k, prefix_bytes_v;
};

static struct data *data_of(const int *len_q, const int *len_kv) {
    struct data *data = calloc(1, sizeof *data);
    unsigned seed = 3;
    cr_assert_not_null(data);
    for (int b = 0; b < BATCH; b++) {
        data->tokens += len_q[b];
        data->keys += len_kv[b];
    }
    run_fill(data->q, data->tokens * HEADS * D, TOLERANCE_FP32, &seed);
    run_fill(data->k, data->keys * KV * D, TOLERANCE_FP32, &seed);
    run_fill(data->v, data->keys * KV * D, TOLERANCE_FP32, &seed);
    run_fill(data->prefix_k, PREFIX * KV * D, TOLERANCE_FP32, &seed);
    run_fill(data->prefix_v, PREFIX * KV * D, TOLERANCE_FP32, &seed);
    return data;
}

enum scales { NONE, TENSOR, HEAD, TOKEN }; /* as the words of kv_scale */

/* Converts numbers to int8, and sets the numbers to what the codes stand for. Scales are powers of two, so that
   products with them are exact. */
static void quantise(float *values, int count, enum scales kind, struct bytes *bytes) {
    for (int r = 0; r < count; r++)
        for (int h = 0; h < KV; h++) {
            int size = kind == TOKEN ? (r + h) % 3 : kind == HEAD ? h : 0;
            float scale = ldexpf(1, size - 5);
            bytes->scale[kind == TOKEN ? r * KV + h : kind == HEAD ? h : 0] = scale;
            for (int c = 0; c < D; c++) {
                int at = (r * KV + h) * D + c;
                float code = fminf(fmaxf(rintf(values[at] / scale), -127), 127);
                bytes->code[at] = (int8_t)code;
                values[at] = code * scale;
            }
        }
}

/* Copies rows first .. first + count of one head, one after another. */
static void rows_of_head(const float *from, int heads, int head, int first, int count, float *to) {
    for (int i = 0; i < count; i++)
        memcpy(to + i * D, from + ((first + i) * heads + head) * D, D * sizeof *to);
}

/* Checks one head of one sequence against the answer over all keys. The two parts and their merge may be off by
   each part's own tolerance times its weight, by what an error of LSE does to the weights, and by the roundings
   of the merge. */
static void check_head(const struct data *data, int h, int first_q, int len_q, int first_kv, int len_kv) {
    float q[OWN * D], k[(PREFIX + OWN) * D], v[(PREFIX + OWN) * D];
    rows_of_head(data->q, HEADS, h, first_q, len_q, q);
    rows_of_head(data->prefix_k, KV, h / (HEADS / KV), 0, PREFIX, k);
    rows_of_head(data->prefix_v, KV, h / (HEADS / KV), 0, PREFIX, v);
    rows_of_head(data->k, KV, h / (HEADS / KV), first_kv, len_kv, k + PREFIX * D);
    rows_of_head(data->v, KV, h / (HEADS / KV), first_kv, len_kv, v + PREFIX * D);
    struct oracle_attention all = {.q = q,
                                   .k = k,
                                   .v = v,
                                   .batch = 1,
                                   .heads = 1,
                                   .kv_heads = 1,
                                   .len_q = len_q,
                                   .len_kv = PREFIX + len_kv,
                                   .head_dim = D,
                                   .head_dim_v = D,
                                   .scale = 0.25,
                                   .causal = true};
    struct oracle_attention part[2] = {all, all};
    part[0].len_kv = PREFIX, part[0].causal = false;
    part[1].len_kv = len_kv, part[1].k = k + PREFIX * D, part[1].v = v + PREFIX * D;
    double o[OWN * D], lse[OWN], part_o[2][OWN * D], part_lse[2][OWN], off_o[2][OWN * D], off_lse[2][OWN];
    cr_assert(oracle_attention(&all, o, lse));
    for (int i = 0; i < 2; i++)
        cr_assert(oracle_attention(&part[i], part_o[i], part_lse[i]) &&
                  tolerance_attention(&part[i], TOLERANCE_FP32, TOLERANCE_FP32, part_o[i], part_lse[i], off_o[i],
                                      off_lse[i]));
    float rounded_o[2 * OWN * D], rounded_lse[2 * OWN];
    double merged_o[OWN * D], merged_lse[OWN], merge_off[OWN * D], merge_off_lse[OWN];
    for (int i = 0; i < 2; i++) {
        for (int c = 0; c < len_q * D; c++)
            rounded_o[i * len_q * D + c] = (float)part_o[i][c];
        for (int r = 0; r < len_q; r++)
            rounded_lse[i * len_q + r] = (float)part_lse[i][r];
    }
    oracle_merge(rounded_o, rounded_lse, 2, len_q, D, merged_o, merged_lse);
    cr_assert(tolerance_merge(rounded_o, rounded_lse, 2, len_q, D, TOLERANCE_FP32, merged_o, merged_lse, merge_off,
                              merge_off_lse));
    for (int r = 0; r < len_q; r++) {
        double w0 = exp(part_lse[0][r] - lse[r]), w1 = exp(part_lse[1][r] - lse[r]),
               shift = off_lse[0][r] + off_lse[1][r];
        for (int c = 0; c < D; c++) {
            int at = r * D + c;
            double allowed = merge_off[at] + w0 * off_o[0][at] + w1 * off_o[1][at] +
                             w0 * w1 * shift * fabs(part_o[0][at] - part_o[1][at]);
            double found = (double)data->o[((first_q + r) * HEADS + h) * D + c];
            cr_expect(fabs(found - o[at]) <= allowed,
                      "token %d, head %d, column %d: expected %.9g, found %.9g, allowed %g", first_q + r, h, c, o[at],
                      found, allowed);
        }
        double found = (double)data->lse[h * data->tokens + first_q + r];
        cr_expect(fabs(found - lse[r]) <= merge_off_lse[r] + off_lse[0][r] + off_lse[1][r], "LSE of token %d: %g, %g",
                  first_q + r, lse[r], found);
    }
}

static void check_all(const struct data *data, const int *len_q, const int *len_kv) {
    for (int b = 0, q = 0, kv = 0; b < BATCH; q += len_q[b], kv += len_kv[b], b++)
        for (int h = 0; h < HEADS; h++)
            check_head(data, h, q, len_q[b], kv, len_kv[b]);
}

/* The host device shares this program's memory, but kernels may only touch the device's own allocations. */
static void *on_device(att_session *session, const void *from, size_t bytes) {
    void *memory;
    cr_assert_eq(att_alloc(session, bytes, &memory), ATT_OK);
    if (from)
        cr_assert_eq(att_copy_in(session, memory, from, bytes), ATT_OK);
    return memory;
}

static struct att_tensor rows(void *data, int heads) { return (struct att_tensor){data, 0, D, heads * D}; }

struct setting {
    att_session *session;
    att_kernel *kernel;
    struct att_args args;
    struct att_shared_prefix prefix;
};

static struct setting set(struct data *data, const char *layout, const int *len_q, const int *len_kv) {
    char problem[128];
    struct setting s = {.session = run_open()};
    att_session *session = s.session;
    snprintf(problem, sizeof problem, "family=attention_forward head_dim=16 mask=causal layout=%s", layout);
    s.kernel = run_find(session, problem, NULL);
    s.prefix = (struct att_shared_prefix){
        .size = sizeof s.prefix,
        .prefix = run_find(session, "family=attention_forward head_dim=16", "algorithm=flash"),
        .merge = run_find(session, "family=merge head_dim_v=16", NULL),
        .k = rows(on_device(session, data->prefix_k, sizeof data->prefix_k), KV),
        .v = rows(on_device(session, data->prefix_v, sizeof data->prefix_v), KV),
        .len = PREFIX};
    int32_t cu_q[BATCH + 1] = {0}, cu_kv[BATCH + 1] = {0};
    for (int b = 0; b < BATCH; b++) {
        cu_q[b + 1] = cu_q[b] + len_q[b];
        cu_kv[b + 1] = cu_kv[b] + len_kv[b];
    }
    bool packed = strcmp(layout, "ragged") == 0;
    s.args = (struct att_args){.size = sizeof s.args,
                               .family = ATT_ATTENTION_FORWARD,
                               .attention = {.q = rows(on_device(session, data->q, sizeof data->q), HEADS),
                                             .k = rows(on_device(session, data->k, sizeof data->k), KV),
                                             .v = rows(on_device(session, data->v, sizeof data->v), KV),
                                             .o = rows(on_device(session, NULL, sizeof data->o), HEADS),
                                             .lse = on_device(session, NULL, sizeof data->lse),
                                             .batch = BATCH,
                                             .heads = HEADS,
                                             .kv_heads = KV,
                                             .len_q = packed ? OWN : len_q[0],
                                             .len_kv = packed ? OWN : len_kv[0],
                                             .cu_seqlens_q = packed ? on_device(session, cu_q, sizeof cu_q) : NULL,
                                             .cu_seqlens_kv = packed ? on_device(session, cu_kv, sizeof cu_kv) : NULL,
                                             .total_q = packed ? data->tokens : 0,
                                             .total_kv = packed ? data->keys : 0}};
    if (!packed) { /* every sequence has the same number of rows */
        struct att_attention_args *a = &s.args.attention;
        a->q.batch_stride = a->o.batch_stride = len_q[0] * HEADS * D;
        a->k.batch_stride = a->v.batch_stride = len_kv[0] * KV * D;
        a->lse_batch_stride = len_q[0];
        a->lse_head_stride = data->tokens;
    }
    size_t bytes;
    enum att_status status = att_shared_prefix_workspace_size(s.kernel, &s.args, &s.prefix, &bytes);
    cr_assert_eq(status, ATT_OK, "%s", att_message(session));
    s.args.workspace = on_device(session, NULL, bytes);
    s.args.workspace_size = bytes;
    return s;
}

static struct setting set_bytes(struct data *data, const int *len_q, const int *len_kv, enum scales own,
                                enum scales prefix) {
    static const char *const words[] = {"", "dtype_kv=int8 kv_scale=tensor", "dtype_kv=int8 kv_scale=head",
                                        "dtype_kv=int8 kv_scale=token"};
    char problem[160];
    if (own != NONE) {
        quantise(data->k, data->keys, own, &data->bytes_k);
        quantise(data->v, data->keys, own, &data->bytes_v);
    }
    if (prefix != NONE) {
        quantise(data->prefix_k, PREFIX, prefix, &data->prefix_bytes_k);
        quantise(data->prefix_v, PREFIX, prefix, &data->prefix_bytes_v);
    }
    struct setting s = set(data, "ragged", len_q, len_kv);
    snprintf(problem, sizeof problem, "family=attention_forward head_dim=16 mask=causal layout=ragged %s", words[own]);
    s.kernel = run_find(s.session, problem, "algorithm=flash");
    snprintf(problem, sizeof problem, "family=attention_forward head_dim=16 %s", words[prefix]);
    s.prefix.prefix = run_find(s.session, problem, "algorithm=flash");
    struct att_attention_args *a = &s.args.attention;
    if (own != NONE) {
        a->k.data = on_device(s.session, data->bytes_k.code, sizeof data->bytes_k.code);
        a->v.data = on_device(s.session, data->bytes_v.code, sizeof data->bytes_v.code);
        a->k_scale = on_device(s.session, data->bytes_k.scale, sizeof data->bytes_k.scale);
        a->v_scale = on_device(s.session, data->bytes_v.scale, sizeof data->bytes_v.scale);
    }
    if (own == TOKEN) {
        a->k_scale_head_stride = a->v_scale_head_stride = 1;
        a->k_scale_row_stride = a->v_scale_row_stride = KV;
    }
    if (prefix != NONE) {
        s.prefix.k.data = on_device(s.session, data->prefix_bytes_k.code, sizeof data->prefix_bytes_k.code);
        s.prefix.v.data = on_device(s.session, data->prefix_bytes_v.code, sizeof data->prefix_bytes_v.code);
        s.prefix.k_scale = on_device(s.session, data->prefix_bytes_k.scale, sizeof data->prefix_bytes_k.scale);
        s.prefix.v_scale = on_device(s.session, data->prefix_bytes_v.scale, sizeof data->prefix_bytes_v.scale);
    }
    if (prefix == TOKEN) {
        s.prefix.k_scale_head_stride = s.prefix.v_scale_head_stride = 1;
        s.prefix.k_scale_row_stride = s.prefix.v_scale_row_stride = KV;
    }
    return s;
}

static void run(struct setting *s, struct data *data) {
    enum att_status status = att_launch_shared_prefix(s->kernel, &s->args, &s->prefix, NULL);
    cr_assert_eq(status, ATT_OK, "%s", att_message(s->session));
    cr_assert_eq(att_copy_out(s->session, data->o, s->args.attention.o.data, sizeof data->o), ATT_OK);
    cr_assert_eq(att_copy_out(s->session, data->lse, s->args.attention.lse, sizeof data->lse), ATT_OK);
}

Test(shared_prefix, is_as_if_each_sequence_had_it_before_its_keys) {
    struct data *data = data_of(ragged_q, ragged_kv);
    struct setting s = set(data, "ragged", ragged_q, ragged_kv);
    run(&s, data);
    check_all(data, ragged_q, ragged_kv);
    att_close(s.session);
    free(data);
}

Test(shared_prefix, serves_one_query_of_each) {
    static const int len_kv[BATCH] = {7, 7, 7};
    struct data *data = data_of(single_q, len_kv);
    struct setting s = set(data, "dense", single_q, len_kv);
    s.args.attention.q.row_stride = 12345; /* never stepped over */
    run(&s, data);
    check_all(data, single_q, len_kv);
    att_close(s.session);
    free(data);
}

Test(shared_prefix, takes_bytes_with_scales_of_their_own) {
    static const struct {
        enum scales own, prefix;
    } cases[] = {{TOKEN, TOKEN},  {HEAD, HEAD},  {TENSOR, TENSOR}, {TOKEN, HEAD},
                 {TENSOR, TOKEN}, {NONE, TOKEN}, {HEAD, NONE}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct data *data = data_of(ragged_q, ragged_kv);
        struct setting s = set_bytes(data, ragged_q, ragged_kv, cases[i].own, cases[i].prefix);
        run(&s, data);
        check_all(data, ragged_q, ragged_kv);
        att_close(s.session);
        free(data);
    }
}

Test(shared_prefix, takes_the_scale_of_own_keys_where_it_has_none) {
    static const enum scales kinds[] = {TENSOR, HEAD};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct data *data = data_of(ragged_q, ragged_kv);
        struct setting s = set_bytes(data, ragged_q, ragged_kv, kinds[i], kinds[i]);
        s.prefix.k_scale = s.prefix.v_scale = NULL; /* quantise gave both the same ones */
        run(&s, data);
        check_all(data, ragged_q, ragged_kv);
        att_close(s.session);
        free(data);
    }
}

static void refused(struct setting s, const char *words) {
    size_t bytes;
    struct att_shared_prefix before = s.prefix;
    enum att_status status = att_shared_prefix_workspace_size(s.kernel, &s.args, &s.prefix, &bytes);
    if (status == ATT_OK)
        status = att_launch_shared_prefix(s.kernel, &s.args, &s.prefix, NULL);
    cr_expect_eq(status, ATT_INVALID_ARGUMENT, "accepted, expected: %s", words);
    cr_expect(strstr(att_message(s.session), words), "expected \"%s\" in: %s", words, att_message(s.session));
    cr_expect_eq(memcmp(&before, &s.prefix, sizeof before), 0);
}

#define REFUSED(change, words)                                                                                         \
    do {                                                                                                               \
        struct setting t = s;                                                                                          \
        change;                                                                                                        \
        refused(t, words);                                                                                             \
    } while (0)

Test(shared_prefix, mistakes_are_named) {
    struct data *data = data_of(ragged_q, ragged_kv);
    struct setting s = set(data, "ragged", ragged_q, ragged_kv);
    att_kernel *causal = run_find(s.session, "family=attention_forward head_dim=16 mask=causal", "algorithm=flash");
    att_kernel *writes = run_find(
        s.session, "family=attention_forward head_dim=16 dtype=bf16 layout=padded append=1 target=sm_80", NULL);
    att_kernel *half = run_find(s.session, "family=merge head_dim_v=16 dtype=fp16", NULL);
    REFUSED(t.prefix.prefix = NULL, "prefix.prefix is null, expected a kernel of family attention_forward");
    REFUSED(t.prefix.merge = NULL, "prefix.merge is null, expected a kernel of family merge");
    REFUSED(t.prefix.merge = t.kernel, "prefix.merge is of family attention_forward, expected merge");
    REFUSED(t.prefix.prefix = causal,
            "expected mask=none, no sinks and no parameters: every query sees the whole prefix");
    REFUSED(t.prefix.prefix = t.kernel, "expected mask=none");
    REFUSED(t.prefix.merge = half, "prefix.merge has dtype=fp16, expected fp32, the dtype_out of kernel");
    REFUSED(t.kernel = writes, "expected one without append, which would count positions from the prefix's end");
    REFUSED(t.prefix.size = 0, "prefix.size is 0");
    REFUSED(t.prefix.len = -1, "len_kv is -1");
    REFUSED(t.prefix.k.data = NULL, "prefix.prefix: k is null");
    REFUSED(t.args.attention.o.data = NULL, "prefix.merge: o is null");
    REFUSED(t.args.workspace_size--, "expected");
    REFUSED(t.args.workspace = NULL, "att_shared_prefix_workspace_size tells how many are needed");
    REFUSED(t.args.attention.total_q = INT64_MAX, "9223372036854775807 tokens of 4 heads are too many together");
    att_close(s.session);
    free(data);
}

Test(shared_prefix, mistakes_in_scales_are_named) {
    struct data *data = data_of(ragged_q, ragged_kv);
    struct setting s = set_bytes(data, ragged_q, ragged_kv, TOKEN, TOKEN);
    att_kernel *heads =
        run_find(s.session, "family=attention_forward head_dim=16 dtype_kv=int8 kv_scale=head", "algorithm=flash");
    att_kernel *floats = run_find(s.session, "family=attention_forward head_dim=16", "algorithm=flash");
    REFUSED(t.prefix.k_scale = t.prefix.v_scale = NULL, "prefix.prefix: k_scale is null, expected the scales");
    REFUSED(t.prefix.v_scale = NULL, "prefix.prefix: v_scale is null");
    REFUSED(t.prefix.prefix = heads, "prefix.prefix: k_scale: strides are 0, 1, 2, expected 0");
    REFUSED(t.prefix.prefix = floats, "prefix.prefix: k_scale is given, and this kernel takes none");
    REFUSED(t.args.attention.k_scale = NULL, "kernel: k_scale is null");
    s.prefix.prefix = heads; /* own tokens have no scales per head */
    s.prefix.k_scale = s.prefix.v_scale = NULL;
    s.prefix.k_scale_head_stride = s.prefix.v_scale_head_stride = 0;
    s.prefix.k_scale_row_stride = s.prefix.v_scale_row_stride = 0;
    refused(s, "prefix.prefix: k_scale is null");
    att_close(s.session);
    free(data);
}
