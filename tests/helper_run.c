#include "helper_run.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GAP = 3, BOX_GAP = 8 }; /* elements between the rows of strided tensors; boxes start every 16 bytes */

static void *reserve(size_t bytes) {
    void *memory = malloc(bytes ? bytes : 1);
    cr_assert_not_null(memory);
    return memory;
}

/* --- element types ----------------------------------------------------------------------------------------------- */

static size_t width(enum tolerance_type type) { return type == TOLERANCE_FP32 ? 4 : 2; }

static uint16_t half_bits(float x) {
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    double size = fabs((double)x);
    if (isnan(x))
        return sign | 0x7e00;
    if (size >= 65520)
        return sign | 0x7c00;
    int exponent = size < 0x1p-14 ? -14 : ilogb(size);
    return (uint16_t)(sign | ((exponent + 14) * 1024 + (int)nearbyint(ldexp(size, 10 - exponent))));
}

static float half_value(uint16_t bits) {
    int exponent = bits >> 10 & 31, digits = bits & 1023;
    float size = exponent == 31 ? (digits ? NAN : INFINITY)
                                : (float)ldexp(digits + (exponent ? 1024 : 0), (exponent ? exponent : 1) - 25);
    return bits >> 15 ? -size : size;
}

static uint16_t bfloat16_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (isnan(x))
        return (uint16_t)(bits >> 16 | 0x40);
    uint32_t low = bits & 0xffff, odd = bits >> 16 & 1;
    return (uint16_t)((bits >> 16) + (low > 0x8000 || (low == 0x8000 && odd)));
}

static void put(void *array, enum tolerance_type type, int64_t i, float x) {
    if (type == TOLERANCE_FP32)
        ((float *)array)[i] = x;
    else
        ((uint16_t *)array)[i] = type == TOLERANCE_FP16 ? half_bits(x) : bfloat16_bits(x);
}

static float get(const void *array, enum tolerance_type type, int64_t i) {
    if (type == TOLERANCE_FP32)
        return ((const float *)array)[i];
    uint16_t bits = ((const uint16_t *)array)[i];
    if (type == TOLERANCE_FP16)
        return half_value(bits);
    uint32_t wide = (uint32_t)bits << 16;
    float x;
    memcpy(&x, &wide, sizeof x);
    return x;
}

float run_round(float value, enum tolerance_type type) {
    float cell;
    put(&cell, type, 0, value);
    return get(&cell, type, 0);
}

void run_fill(float *values, int64_t count, enum tolerance_type type, unsigned *seed) {
    for (int64_t i = 0; i < count; i++) {
        float sum = -6; /* the sum of twelve uniform numbers is close enough to normal */
        for (int j = 0; j < 12; j++) {
            *seed = *seed * 1664525u + 1013904223u;
            sum += (float)(*seed >> 8) * 0x1p-24f;
        }
        values[i] = run_round(sum, type);
    }
}

/* --- device memory ----------------------------------------------------------------------------------------------- */

/* Matrix (rows, cols) with `stride` elements from row to row; it ends at the last element of the last row. */
struct matrix {
    void *device;
    int64_t rows, cols, stride;
    enum tolerance_type type;
};

static size_t matrix_bytes(const struct matrix *m) {
    return m->rows && m->cols ? (size_t)((m->rows - 1) * m->stride + m->cols) * width(m->type) : 0;
}

static void must(att_session *session, enum att_status status) {
    cr_assert_eq(status, ATT_OK, "%s: %s", att_status_name(status), att_message(session));
}

static struct matrix matrix_in(att_session *session, const float *values, int64_t rows, int64_t cols, int64_t gap,
                               enum tolerance_type type) {
    struct matrix m = {NULL, rows, cols, cols + gap, type};
    size_t bytes = matrix_bytes(&m);
    char *cells = reserve(bytes);
    memset(cells, 0xff, bytes); /* NaN in every type */
    for (int64_t i = 0; values && i < rows * cols; i++)
        put(cells, type, i / cols * m.stride + i % cols, values[i]);
    must(session, att_alloc(session, bytes, &m.device));
    must(session, att_copy_in(session, m.device, cells, bytes));
    free(cells);
    return m;
}

/* Reads a result back and frees the matrix. The gaps between rows must be unchanged. */
static void matrix_out(att_session *session, struct matrix *m, float *values) {
    size_t bytes = matrix_bytes(m);
    char *cells = reserve(bytes);
    must(session, att_copy_out(session, cells, m->device, bytes));
    for (int64_t r = 0; bytes && r < m->rows; r++)
        for (int64_t c = 0; c < m->stride && (r + 1 < m->rows || c < m->cols); c++) {
            if (c < m->cols)
                values[r * m->cols + c] = get(cells, m->type, r * m->stride + c);
            else
                cr_assert(isnan(get(cells, m->type, r * m->stride + c)), "row %d: written past its end", (int)r);
        }
    free(cells);
    must(session, att_free(session, m->device));
}

static void matrix_free(att_session *session, struct matrix *m) { must(session, att_free(session, m->device)); }

static struct att_tensor tensor(const struct matrix *m, int64_t heads, int64_t rows) {
    return (struct att_tensor){m->device, heads * rows * m->stride, rows * m->stride, m->stride};
}

/* --- kernels ------------------------------------------------------------------------------------------------------ */

att_session *run_open(void) {
    att_session *session;
    struct att_options options = {.size = sizeof options, .device = ATT_DEVICE_HOST, .no_disk_cache = 1};
    enum att_status status = att_open(&options, &session); /* before the call of must, which reads session */
    must(session, status);
    return session;
}

att_kernel *run_find(att_session *session, const char *problem, const char *schedule) {
    att_kernel *kernel;
    enum att_status status = att_find(session, problem, schedule, &kernel);
    cr_assert_eq(status, ATT_OK, "%s; %s: %s", problem, schedule, att_message(session));
    return kernel;
}

static void launch(att_session *session, att_kernel *kernel, struct att_args *args) {
    must(session, att_workspace_size(kernel, args, &args->workspace_size));
    must(session, att_alloc(session, args->workspace_size, &args->workspace));
    must(session, att_launch(kernel, args, NULL));
    must(session, att_synchronize(session));
    must(session, att_free(session, args->workspace));
}

void run_attention(att_session *session, att_kernel *kernel, enum tolerance_type input, enum tolerance_type output,
                   const struct oracle_attention *p, float *o, float *lse, struct att_counters *counters) {
    int64_t rows_q = p->batch * p->heads * p->len_q, rows_kv = p->batch * p->kv_heads * p->len_kv;
    int64_t gap = strstr(att_kernel_name(kernel), "flash_async") ? BOX_GAP : GAP;
    struct matrix q = matrix_in(session, p->q, rows_q, p->head_dim, gap, input);
    struct matrix k = matrix_in(session, p->k, rows_kv, p->head_dim, 0, input);
    struct matrix v = matrix_in(session, p->v, rows_kv, p->head_dim_v, gap, input);
    struct matrix out = matrix_in(session, NULL, rows_q, p->head_dim_v, gap, output);
    struct matrix sums = matrix_in(session, NULL, 1, rows_q, 0, TOLERANCE_FP32);
    struct att_args args = {.size = sizeof args,
                            .family = ATT_ATTENTION_FORWARD,
                            .attention = {.q = tensor(&q, p->heads, p->len_q),
                                          .k = tensor(&k, p->kv_heads, p->len_kv),
                                          .v = tensor(&v, p->kv_heads, p->len_kv),
                                          .o = tensor(&out, p->heads, p->len_q),
                                          .lse = sums.device,
                                          .batch = p->batch,
                                          .heads = p->heads,
                                          .kv_heads = p->kv_heads,
                                          .len_q = p->len_q,
                                          .len_kv = p->len_kv,
                                          .scale = (float)p->scale}};
    struct att_counters ignored = {.size = sizeof ignored};
    must(session, att_counters_read(session, &ignored, 1));
    launch(session, kernel, &args);
    must(session, att_counters_read(session, counters ? counters : &ignored, 1));
    matrix_free(session, &q);
    matrix_free(session, &k);
    matrix_free(session, &v);
    matrix_out(session, &out, o);
    matrix_out(session, &sums, lse);
}

void run_merge(att_session *session, att_kernel *kernel, enum tolerance_type input, enum tolerance_type output,
               const float *o_parts, const float *lse_parts, int64_t parts, int64_t rows, int64_t head_dim_v, float *o,
               float *lse) {
    struct matrix from = matrix_in(session, o_parts, parts * rows, head_dim_v, GAP, input);
    struct matrix weights = matrix_in(session, lse_parts, 1, parts * rows, 0, TOLERANCE_FP32);
    struct matrix out = matrix_in(session, NULL, rows, head_dim_v, GAP, output);
    struct matrix sums = matrix_in(session, NULL, 1, rows, 0, TOLERANCE_FP32);
    struct att_args args = {.size = sizeof args,
                            .family = ATT_MERGE,
                            .merge = {.o_parts = tensor(&from, 1, rows),
                                      .o_parts_part_stride = rows * from.stride,
                                      .lse_parts = weights.device,
                                      .o = tensor(&out, 1, rows),
                                      .lse = sums.device,
                                      .parts = parts,
                                      .batch = 1,
                                      .heads = 1,
                                      .len_q = rows}};
    launch(session, kernel, &args);
    matrix_free(session, &from);
    matrix_free(session, &weights);
    matrix_out(session, &out, o);
    matrix_out(session, &sums, lse);
}

void run_softmax(att_session *session, att_kernel *kernel, enum tolerance_type input, enum tolerance_type output,
                 const float *x, int64_t rows, int64_t cols, float *y) {
    struct matrix in = matrix_in(session, x, rows, cols, GAP, input);
    struct matrix out = matrix_in(session, NULL, rows, cols, GAP, output);
    struct att_args args = {.size = sizeof args,
                            .family = ATT_SOFTMAX,
                            .softmax = {in.device, out.device, in.stride, out.stride, rows, cols}};
    launch(session, kernel, &args);
    matrix_free(session, &in);
    matrix_out(session, &out, y);
}
