/* Many sequences begin with the same keys, such as a system prompt. One call attends to these keys once for all
   sequences, attends to the own keys of each sequence, and merges the two results. K and V are pages of one cache; the
   pages of the prefix are in every page table. With int8 the cache has 8 bits and a scale for each row.

       example_shared_prefix [host | cuda] [int8] */
#include <attile.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 8, KV_HEADS = 2, DIM = 32, PAGE = 16, PREFIX_PAGES = 4, OWN_PAGES = 2, BATCH = 6 };
enum { PREFIX = PREFIX_PAGES * PAGE, ROW_PAGES = PREFIX_PAGES + OWN_PAGES, PAGES = PREFIX_PAGES + BATCH * OWN_PAGES };
enum { PAGE_ELEMENTS = KV_HEADS * PAGE * DIM, Q_ROW = HEADS * DIM };

static att_session *session;

static void must(enum att_status status, const char *what) {
    if (status == ATT_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, att_message(session));
    exit(1);
}

static att_kernel *find(const char *problem, const char *stored) {
    char text[200];
    att_kernel *kernel;
    snprintf(text, sizeof text, "%s %s", problem, stored);
    must(att_find(session, text, NULL, &kernel), text);
    printf("%s\n", att_kernel_name(kernel));
    return kernel;
}

static void *on_device(const void *from, size_t bytes) {
    void *memory;
    must(att_alloc(session, bytes, &memory), "memory");
    if (from)
        must(att_copy_in(session, memory, from, bytes), "copy");
    return memory;
}

/* Multiples of 1/8 from -1 to 1, which fp16 holds: 1 is 0x3C00. */
static double number(uint32_t x) {
    x = (x ^ x >> 16) * 0x7FEB352Du;
    x = (x ^ x >> 15) * 0x846CA68Bu;
    return (double)((x >> 16) * 17 >> 16) / 8 - 1;
}

static uint16_t half_of(double x) {
    int exponent = 0;
    double fraction = frexp(fabs(x), &exponent); /* from 1/2 to 1 */
    return x == 0 ? 0 : (uint16_t)((x < 0 ? 0x8000 : 0) | (exponent + 14) << 10 | ((int)(fraction * 2048) - 1024));
}

static double of_half(uint16_t half) {
    int exponent = half >> 10 & 31;
    double size = ldexp((half & 1023) + (exponent ? 1024 : 0), (exponent ? exponent : 1) - 25);
    return half & 0x8000 ? -size : size;
}

/* A row of K or V is this scale times its codes, which are -8 to 8. */
static float scale_of(int row) { return (float)(1 + row % 4) / 32; }

enum { CACHE = PAGES * PAGE_ELEMENTS, CACHE_ROWS = CACHE / DIM };
static double q[BATCH * Q_ROW], k[CACHE], v[CACHE];
static int8_t k_code[CACHE], v_code[CACHE];
static int32_t table[BATCH * ROW_PAGES], own_length[BATCH];

static void *halves_on_device(const double *x, int count) {
    uint16_t *half = malloc((size_t)count * sizeof *half);
    must(half ? ATT_OK : ATT_OUT_OF_MEMORY, "memory");
    for (int i = 0; i < count; i++)
        half[i] = half_of(x[i]);
    void *memory = on_device(half, (size_t)count * sizeof *half);
    free(half);
    return memory;
}

/* The cache of K or of V, in one of its two types. */
static struct att_tensor pages_on_device(const double *x, const int8_t *code, int bytes) {
    void *data = bytes ? on_device(code, CACHE) : halves_on_device(x, CACHE);
    return (struct att_tensor){data, PAGE_ELEMENTS, PAGE * DIM, DIM};
}

/* Returns the largest error of a sequence's O, in units of the error that rounding the weights and O to fp16 may
   cause. */
static double error_of(int b, const uint16_t *o) {
    double worst = 0;
    for (int h = 0; h < HEADS; h++) {
        double out[DIM] = {0}, sum = 0;
        for (int j = 0; j < PREFIX + own_length[b]; j++) {
            int page = table[b * ROW_PAGES + j / PAGE],
                at = ((page * KV_HEADS + h / (HEADS / KV_HEADS)) * PAGE + j % PAGE) * DIM;
            double score = 0;
            for (int i = 0; i < DIM; i++)
                score += q[b * Q_ROW + h * DIM + i] * k[at + i] / sqrt(DIM);
            sum += exp(score);
            for (int i = 0; i < DIM; i++)
                out[i] += exp(score) * v[at + i];
        }
        for (int i = 0; i < DIM; i++)
            worst = fmax(worst, fabs(of_half(o[b * Q_ROW + h * DIM + i]) - out[i] / sum) / (2 * 0x1p-11));
    }
    return worst;
}

int main(int count, char **word) {
    int host = 0, cuda = 0, bytes = 0;
    for (int i = 1; i < count; i++) {
        host |= strcmp(word[i], "host") == 0;
        cuda |= strcmp(word[i], "cuda") == 0;
        bytes |= strcmp(word[i], "int8") == 0;
    }
    struct att_options options = {.size = sizeof options,
                                  .device = host   ? ATT_DEVICE_HOST
                                            : cuda ? ATT_DEVICE_CUDA
                                                   : ATT_DEVICE_AUTO};
    must(att_open(&options, &session), "open");

    /* The two results stay fp32 until they are merged. The prefix is one sequence, which all queries see. */
    const char *stored = bytes ? "dtype_kv=int8 kv_scale=token" : "";
    att_kernel *own = find("family=attention_forward dtype=fp16 dtype_out=fp32 head_dim=32 mask=causal layout=padded "
                           "page_size=16 len_q=1",
                           stored);
    att_kernel *prefix =
        find("family=attention_forward dtype=fp16 dtype_out=fp32 head_dim=32 layout=padded page_size=16", stored);
    att_kernel *merge = find("family=merge dtype=fp32 dtype_out=fp16 head_dim_v=32", "");

    for (int i = 0; i < BATCH * Q_ROW; i++)
        q[i] = number((uint32_t)i);
    float scale[CACHE_ROWS];
    for (int i = 0; i < CACHE; i++) {
        k_code[i] = (int8_t)(8 * number((uint32_t)i + 0x100000));
        v_code[i] = (int8_t)(8 * number((uint32_t)i + 0x200000));
        scale[i / DIM] = scale_of(i / DIM);
        k[i] = (double)scale[i / DIM] * k_code[i];
        v[i] = (double)scale[i / DIM] * v_code[i];
    }
    for (int b = 0; b < BATCH; b++) {
        own_length[b] = b * 7 % (OWN_PAGES * PAGE + 1); /* from none to both pages full */
        for (int i = 0; i < ROW_PAGES; i++)
            table[b * ROW_PAGES + i] = i < PREFIX_PAGES ? PAGES - 1 - i : b * OWN_PAGES + i - PREFIX_PAGES;
    }
    int32_t prefix_length = PREFIX, *device_table = on_device(table, sizeof table);
    struct att_tensor pages_k = pages_on_device(k, k_code, bytes), pages_v = pages_on_device(v, v_code, bytes);
    float *scales =
        bytes ? on_device(scale, sizeof scale) : NULL; /* (pages, kv_heads, page_size); the same for K and V */
    struct att_args args = {.size = sizeof args,
                            .family = ATT_ATTENTION_FORWARD,
                            .attention = {.q = {halves_on_device(q, BATCH * Q_ROW), Q_ROW, DIM, Q_ROW},
                                          .k = pages_k,
                                          .v = pages_v,
                                          .o = {on_device(NULL, sizeof q / 4), Q_ROW, DIM, Q_ROW},
                                          .batch = BATCH,
                                          .heads = HEADS,
                                          .kv_heads = KV_HEADS,
                                          .len_q = 1,
                                          .len_kv = OWN_PAGES * PAGE,
                                          .lengths_kv = on_device(own_length, sizeof own_length),
                                          .page_table = device_table + PREFIX_PAGES, /* the part after the prefix */
                                          .page_table_row_stride = ROW_PAGES,
                                          .pages = PAGES,
                                          .k_scale = scales,
                                          .v_scale = scales}};
    struct att_shared_prefix shared = {.size = sizeof shared,
                                       .prefix = prefix,
                                       .merge = merge,
                                       .k = pages_k,
                                       .v = pages_v,
                                       .len = PREFIX,
                                       .lengths_kv = on_device(&prefix_length, sizeof prefix_length),
                                       .page_table = device_table, /* like all rows, the first begins with the prefix */
                                       .pages = PAGES,
                                       .k_scale = scales,
                                       .v_scale = scales};
    must(att_shared_prefix_workspace_size(own, &args, &shared, &args.workspace_size), "workspace");
    args.workspace = on_device(NULL, args.workspace_size);
    must(att_launch_shared_prefix(own, &args, &shared, NULL), "launch");

    static uint16_t o[BATCH * Q_ROW];
    must(att_copy_out(session, o, args.attention.o.data, sizeof o), "copy");
    double worst = 0;
    for (int b = 0; b < BATCH; b++)
        worst = fmax(worst, error_of(b, o));
    printf("%d sequences after %d common keys: the largest error is %.0f %% of what is allowed\n", BATCH, PREFIX,
           100 * worst);
    att_close(session);
    return worst <= 1 ? 0 : 1;
}
