/* 8-bit K and V: every code has its value, in K and in V, on every kernel that reads them; and what launches and
   problems refuse. The sweep (specs/attention_quantised*.yaml) checks that sums are right. */
#include "attile.h"
#include "helper_run.h"
#include "tensor.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define PROBLEM "family=attention_forward dtype=fp16 dtype_out=fp32 "

enum { CODES = 256, D = 64, HEADS = CODES / D };

static const struct {
    const char *problem;
    enum npy_type type;
} types[] = {{"dtype_kv=e4m3 ", NPY_E4M3}, {"dtype_kv=e5m2 ", NPY_E5M2}, {"dtype_kv=int8 ", NPY_INT8}};
static const struct {
    const char *target, *schedule;
} kernels[] = {{"target=sm_80", "algorithm=decode threads=64"}, /* e4m3 without the instruction */
               {"target=sm_90", "algorithm=decode threads=64"},
               {"", "algorithm=flash"},
               {"", "algorithm=materialized"}};
enum { TYPES = sizeof types / sizeof *types, KERNELS = sizeof kernels / sizeof *kernels };

static att_session *open_host(void) {
    att_session *session;
    struct att_options options = {.size = sizeof options, .device = ATT_DEVICE_HOST, .no_disk_cache = 1};
    cr_assert_eq(att_open(&options, &session), ATT_OK);
    return session;
}

static void *on_device(att_session *session, const void *host, size_t bytes) {
    void *device;
    cr_assert_eq(att_alloc(session, bytes, &device), ATT_OK);
    cr_assert_eq(att_copy_in(session, device, host, bytes), ATT_OK);
    return device;
}

/* Launches with these tensors. `o` or `lse` gets CODES numbers. */
static void launch(att_session *session, att_kernel *kernel, struct att_attention_args a, const void *q, size_t q_bytes,
                   const uint8_t *k, const uint8_t *v, size_t kv_bytes, float *o, float *lse) {
    static const float nothing[CODES];
    void *workspace = NULL,
         *device[] = {on_device(session, q, q_bytes), on_device(session, k, kv_bytes), on_device(session, v, kv_bytes),
                      NULL, on_device(session, nothing, sizeof nothing)};
    size_t rows = (size_t)(a.batch * a.heads), bytes;
    cr_assert_eq(att_alloc(session, rows * D * sizeof *o, &device[3]), ATT_OK);
    a.q = (struct att_tensor){device[0], a.heads * D, D, D};
    a.k = (struct att_tensor){device[1], a.heads * D, D, D};
    a.v = (struct att_tensor){device[2], a.heads * D, D, D};
    a.o = (struct att_tensor){device[3], a.heads * D, D, D};
    a.lse = device[4];
    struct att_args args = {.size = sizeof args, .family = ATT_ATTENTION_FORWARD, .attention = a};
    cr_assert_eq(att_workspace_size(kernel, &args, &bytes), ATT_OK, "%s", att_message(session));
    cr_assert_eq(att_alloc(session, bytes, &workspace), ATT_OK);
    args.workspace = workspace, args.workspace_size = bytes;
    cr_assert_eq(att_launch(kernel, &args, NULL), ATT_OK, "%s", att_message(session));
    if (o)
        cr_assert_eq(att_copy_out(session, o, device[3], rows * D * sizeof *o), ATT_OK);
    if (lse)
        cr_assert_eq(att_copy_out(session, lse, device[4], rows * sizeof *lse), ATT_OK);
    for (int i = 0; i < 5; i++)
        att_free(session, device[i]);
    att_free(session, workspace);
}

static bool same(float a, float b) { return a == b || (isnan(a) && isnan(b)); }

/* O of a query that sees one key is that key's V. */
Test(quantised, has_the_value_of_every_code_in_v) {
    att_session *session = open_host();
    for (int i = 0; i < TYPES * KERNELS; i++) {
        uint16_t q[CODES] = {0};
        uint8_t k[CODES] = {0}, v[CODES];
        float o[CODES];
        char problem[128];
        for (int code = 0; code < CODES; code++)
            v[code] = (uint8_t)code;
        snprintf(problem, sizeof problem, PROBLEM "%s%s", types[i % TYPES].problem, kernels[i / TYPES].target);
        att_kernel *kernel = run_find(session, problem, kernels[i / TYPES].schedule);
        launch(session, kernel, (struct att_attention_args){.batch = 1, .heads = HEADS, .len_q = 1, .len_kv = 1}, q,
               sizeof q, k, v, sizeof v, o, NULL);
        for (int code = 0; code < CODES; code++) {
            float expected = element_decode(types[i % TYPES].type, &v[code]);
            cr_expect(same(o[code], expected), "%s %s: code 0x%02x is %g, expected %g", problem,
                      kernels[i / TYPES].schedule, code, (double)o[code], (double)expected);
        }
    }
    att_close(session);
}

/* LSE of a query that sees one key is their score. Q picks one element of K, each column in turn. */
Test(quantised, has_the_value_of_every_code_in_k) {
    static uint16_t q[CODES * D];
    static uint8_t k[CODES * D], v[CODES * D];
    att_session *session = open_host();
    for (int i = 0; i < TYPES * KERNELS; i++) {
        float lse[CODES];
        char problem[128];
        memset(k, 1, sizeof k);
        for (int code = 0; code < CODES; code++) {
            q[code * D + code % D] = 0x3c00;
            k[code * D + code % D] = (uint8_t)code;
        }
        snprintf(problem, sizeof problem, PROBLEM "%s%s", types[i % TYPES].problem, kernels[i / TYPES].target);
        att_kernel *kernel = run_find(session, problem, kernels[i / TYPES].schedule);
        launch(session, kernel,
               (struct att_attention_args){.batch = CODES, .heads = 1, .len_q = 1, .len_kv = 1, .scale = 1}, q,
               sizeof q, k, v, sizeof v, NULL, lse);
        for (int code = 0; code < CODES; code++) {
            const uint8_t bits = (uint8_t)code;
            float expected = element_decode(types[i % TYPES].type, &bits);
            if (expected == INFINITY) /* infinity minus the largest score, which is infinity */
                expected = NAN;
            cr_expect(same(lse[code], expected), "%s %s: code 0x%02x is %g, expected %g", problem,
                      kernels[i / TYPES].schedule, code, (double)lse[code], (double)expected);
        }
    }
    att_close(session);
}

/* The check sends encoded values to a device. */
Test(quantised, encodes_what_it_decodes) {
    for (int i = 0; i < TYPES; i++)
        for (int code = 0; code < CODES; code++) {
            uint8_t bits = (uint8_t)code, again;
            float value = element_decode(types[i].type, &bits);
            if (!isfinite(value) || value < -127) /* encoding never makes infinity; int8 is symmetric */
                continue;
            element_encode(types[i].type, value, &again);
            cr_expect_eq(again, bits, "%s0x%02x became 0x%02x", types[i].problem, code, again);
        }
}

Test(quantised, refuses_problems_and_says_why) {
    static const struct {
        const char *problem, *schedule, *words;
    } cases[] = {
        {"kv_scale=token", NULL, "kv_scale"},
        {"kv_scale=head target=sm_80", "algorithm=decode", "kv_scale is head"},
        {"dtype_kv=bf16 target=sm_80", "algorithm=decode", "dtype_kv is bf16"},
        {"dtype_kv=bf16", "algorithm=flash", "dtype_kv is bf16"},
        {"dtype_kv=e4m3 target=sm_90a", "algorithm=flash_async", "does not use it"},
        {"dtype_kv=e4m3", "algorithm=flash_tiled", "does not use it"},
        {"dtype_kv=e4m3 target=any", "algorithm=decode", "target is any"},
        {"dtype_kv=e4m3 target=sm_80", "algorithm=decode block_n=16", "block_n is 16"},
        {"dtype_kv=e4m3 head_dim=256 target=sm_90", "algorithm=decode block_m=16", "row_groups is 2"},
    };
    att_session *session = open_host();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char problem[160];
        att_kernel *kernel;
        snprintf(problem, sizeof problem, PROBLEM "%s", cases[i].problem);
        cr_expect_neq(att_find(session, problem, cases[i].schedule, &kernel), ATT_OK, "%s", cases[i].problem);
        cr_expect(strstr(att_message(session), cases[i].words), "%s: %s", cases[i].words, att_message(session));
    }
    att_close(session);
}

/* Naming the type of Q for K and V makes no other problem. */
Test(quantised, takes_the_type_of_q_for_any_kernel) {
    att_session *session = open_host();
    run_find(session, "family=attention_forward dtype=fp16 dtype_kv=fp16", "algorithm=flash_tiled");
    att_close(session);
}

Test(quantised, checks_scales_at_launch) {
    static const struct {
        const char *problem, *words;
        int k, v, k_strides, v_strides; /* given? */
    } cases[] = {
        {"kv_scale=tensor", "k_scale is null, expected the scales of an 8-bit cache", 0, 1, 0, 0},
        {"kv_scale=head", "v_scale is null", 1, 0, 0, 0},
        {"kv_scale=token", "kv_scale=token", 0, 0, 0, 0},
        {"", "k_scale is given, and this kernel takes none", 1, 1, 0, 0},
        {"kv_scale=head", "k_scale: strides are", 1, 1, 1, 0},
        {"kv_scale=token", "v_scale: row_stride is -1", 1, 1, 0, -1},
        {"kv_scale=token", NULL, 1, 1, 1, 1},
        {"kv_scale=head", NULL, 1, 1, 0, 0},
    };
    static float memory[8 * D];
    att_session *session = open_host();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char problem[160];
        float *device = on_device(session, memory, sizeof memory);
        snprintf(problem, sizeof problem, PROBLEM "dtype_kv=int8 %s", cases[i].problem);
        att_kernel *kernel = run_find(session, problem, "algorithm=flash");
        struct att_args args = {.size = sizeof args,
                                .family = ATT_ATTENTION_FORWARD,
                                .attention = {.q = {device, D, D, D},
                                              .k = {device + D, D, D, D},
                                              .v = {device + 2 * D, D, D, D},
                                              .o = {device + 3 * D, D, D, D},
                                              .batch = 1,
                                              .heads = 1,
                                              .len_q = 1,
                                              .len_kv = 2,
                                              .k_scale = cases[i].k ? device + 5 * D : NULL,
                                              .v_scale = cases[i].v ? device + 6 * D : NULL,
                                              .k_scale_row_stride = cases[i].k_strides,
                                              .v_scale_row_stride = cases[i].v_strides}};
        enum att_status status = att_launch(kernel, &args, NULL);
        cr_expect_eq(status, cases[i].words ? ATT_INVALID_ARGUMENT : ATT_OK, "%s: %s", cases[i].problem,
                     att_message(session));
        cr_expect(!cases[i].words || strstr(att_message(session), cases[i].words), "%s: %s", cases[i].words,
                  att_message(session));
        att_free(session, device);
    }
    att_close(session);
}
