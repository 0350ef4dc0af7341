/* bench_append: writes K and V into a paged cache, with RoPE of Q and K (family append_kv), beside a copy of as many
   bytes.

       bench_append [COMMIT]      JSON lines on stdout; needs a GPU

   bytes: the bytes that the kernel must read and write. The copy is the driver's, from one half of a buffer of this
   size to the other, in the same run. Both are timed as batches of launches over buffers that together are larger than
   the L2; the median of the rounds counts. */
#include "cuda_api.h"
#include "session.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 64, KV_HEADS = 8, DIM = 128, PAGE = 16, ROUNDS = 15, Q_ROW = HEADS * DIM, KV_ROW = KV_HEADS * DIM };

static const struct step {
    const char *name;
    int batch, new_tokens, length, launches;
} steps[] = {{"prefill, 8 sequences of 2048", 8, 2048, 2048, 4},
             {"decode, 64 sequences", 64, 1, 1024, 50},
             {"decode, 1 sequence", 1, 1, 8192, 50}};

static const struct kind {
    const char *name, *problem;
    int cached; /* bytes of an element of the cache */
    int scales; /* bytes of scales for each token and head */
    bool queries;
} kinds[] = {{"bf16, halves", "rope=halves", 2, 0, true},
             {"bf16, interleaved", "rope=interleaved", 2, 0, true},
             {"bf16, K and V alone", "", 2, 0, false},
             {"int8, a scale a token, halves", "rope=halves dtype_kv=int8 kv_scale=token", 1, 4, true},
             {"e4m3, one scale, halves", "rope=halves dtype_kv=e4m3 kv_scale=tensor", 1, 0, true}};

static att_session *session;
static const char *commit = "";
static char driver[80]; /* its version; "" where NVML is missing */
static int (*copy)(unsigned long long to, unsigned long long from, size_t bytes, void *stream);

static void must(enum att_status status, const char *what) {
    if (status == ATT_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, att_message(session));
    exit(1);
}

static void read_driver(void) {
    void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    int (*init)(void), (*version)(char *, unsigned);
    *(void **)&init = nvml ? dlsym(nvml, "nvmlInit_v2") : NULL;
    *(void **)&version = nvml ? dlsym(nvml, "nvmlSystemGetDriverVersion") : NULL;
    if (!init || !version || init() || version(driver, sizeof driver))
        *driver = '\0';
}

static void *reserve(size_t bytes) {
    void *memory;
    must(att_alloc(session, bytes, &memory), "memory");
    return memory;
}

static void *send(const void *from, size_t bytes) {
    void *memory = reserve(bytes);
    must(att_copy_in(session, memory, from, bytes), "copy");
    return memory;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median time of one launch, by the device's timer over `launches` launches. With a null kernel: of a copy. */
static double time_launches(att_kernel *kernel, const struct att_args *args, void *memory, size_t bytes, int launches) {
    double seconds[ROUNDS];
    for (int round = -1; round < ROUNDS; round++) {
        struct failure failure = {0};
        double time = 0;
        must(session->type->timer_start(session->backend, NULL, &failure), "timer");
        for (int i = 0; i < launches; i++)
            if (kernel)
                must(att_launch(kernel, args, NULL), "launch");
            else if (copy((unsigned long long)(uintptr_t)memory, (unsigned long long)(uintptr_t)memory + bytes / 2,
                          bytes / 2, NULL))
                must(ATT_LAUNCH_FAILED, "copy");
        must(session->type->timer_stop(session->backend, NULL, &time, &failure), "timer");
        if (round >= 0)
            seconds[round] = time / launches;
    }
    qsort(seconds, ROUNDS, sizeof *seconds, compare);
    return seconds[ROUNDS / 2];
}

static void measure(const struct step *step, const struct kind *kind) {
    char problem[256];
    att_kernel *kernel;
    snprintf(problem, sizeof problem, "family=append_kv dtype=bf16 head_dim=128 layout=ragged page_size=16 %s",
             kind->problem);
    must(att_find(session, problem, NULL, &kernel), problem);
    int tokens = step->batch * step->new_tokens, row_pages = step->length / PAGE, pages = step->batch * row_pages;
    int32_t *cu_seqlens = calloc((size_t)step->batch + 1, sizeof *cu_seqlens),
            *lengths = calloc((size_t)step->batch, sizeof *lengths);
    int32_t *table = calloc((size_t)pages, sizeof *table);
    if (!cu_seqlens || !lengths || !table)
        exit(1);
    for (int b = 0; b < step->batch; b++) {
        cu_seqlens[b + 1] = (b + 1) * step->new_tokens;
        lengths[b] = step->length;
    }
    for (int i = 0; i < pages; i++)
        table[i] = (int32_t)((int64_t)i * 7919 % pages); /* 7919 is prime: all pages, out of order */
    size_t kv_bytes = (size_t)tokens * KV_ROW * 2, q_bytes = (size_t)tokens * Q_ROW * 2;
    size_t cache_bytes = (size_t)pages * PAGE * KV_ROW * (size_t)kind->cached;
    float one = 1;
    int64_t row = DIM, page = PAGE * KV_ROW;
    struct att_tensor q = {reserve(q_bytes), 0, DIM, Q_ROW};
    struct att_args args = {.size = sizeof args,
                            .family = ATT_APPEND_KV,
                            .append = {.q = kind->queries ? q : (struct att_tensor){0},
                                       .q_out = kind->queries ? q : (struct att_tensor){0},
                                       .k = {reserve(kv_bytes), 0, DIM, KV_ROW},
                                       .v = {reserve(kv_bytes), 0, DIM, KV_ROW},
                                       .k_cache = {reserve(cache_bytes), page, PAGE * DIM, row},
                                       .v_cache = {reserve(cache_bytes), page, PAGE * DIM, row},
                                       .batch = step->batch,
                                       .heads = HEADS,
                                       .kv_heads = KV_HEADS,
                                       .len_q = step->new_tokens,
                                       .len_kv = step->length,
                                       .cu_seqlens_q = send(cu_seqlens, ((size_t)step->batch + 1) * sizeof *cu_seqlens),
                                       .total_q = tokens,
                                       .lengths_kv = send(lengths, (size_t)step->batch * sizeof *lengths),
                                       .page_table = send(table, (size_t)pages * sizeof *table),
                                       .pages = pages}};
    size_t scales = (size_t)pages * PAGE * KV_HEADS * sizeof one;
    args.append.k_scale = kind->scales ? reserve(scales) : send(&one, sizeof one);
    args.append.v_scale = kind->scales ? reserve(scales) : send(&one, sizeof one);
    size_t bytes = (kind->queries ? 2 * q_bytes : 0) + 2 * kv_bytes + kv_bytes * (size_t)kind->cached +
                   2 * (size_t)tokens * KV_HEADS * (size_t)kind->scales;
    void *both = reserve(bytes);
    must(att_prepare(kernel), "prepare");
    double seconds = time_launches(kernel, &args, NULL, 0, step->launches);
    double copied = time_launches(NULL, NULL, both, bytes, step->launches);
    struct att_session_info info = {.size = sizeof info};
    must(att_session_describe(session, &info), "describe");
    printf("{\"bench\": \"append\", \"step\": \"%s\", \"kind\": \"%s\", \"kernel\": \"%s\", \"device\": \"%s\", "
           "\"microseconds\": %.2f, \"copy_microseconds\": %.2f, \"bytes\": %zu, \"gigabytes_per_second\": %.0f, "
           "\"of_copy\": %.3f, \"driver\": \"%s\", \"version\": \"%s\", \"commit\": \"%s\"}\n",
           step->name, kind->name, att_kernel_name(kernel), info.device_name, seconds * 1e6, copied * 1e6, bytes,
           (double)bytes / seconds / 1e9, copied / seconds, driver, att_version(), commit);
    fflush(stdout);
    void *const memory[] = {q.data,
                            args.append.k.data,
                            args.append.v.data,
                            args.append.k_cache.data,
                            args.append.v_cache.data,
                            (void *)args.append.cu_seqlens_q,
                            (void *)args.append.lengths_kv,
                            (void *)args.append.page_table,
                            args.append.k_scale,
                            args.append.v_scale,
                            both};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        att_free(session, memory[i]);
    free(cu_seqlens);
    free(lengths);
    free(table);
}

int main(int count, char **word) {
    const struct att_options options = {.size = sizeof options, .device = ATT_DEVICE_CUDA};
    commit = count > 1 ? word[1] : "";
    must(att_open(&options, &session), "open");
    read_driver();
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *context;
    int (*retain)(void **, int), (*make_current)(void *);
    *(void **)&copy = library ? dlsym(library, "cuMemcpyDtoDAsync_v2") : NULL;
    *(void **)&retain = library ? dlsym(library, "cuDevicePrimaryCtxRetain") : NULL;
    *(void **)&make_current = library ? dlsym(library, "cuCtxSetCurrent") : NULL;
    if (!copy || !retain || !make_current || retain(&context, 0) || make_current(context)) {
        fprintf(stderr, "bench_append: libcuda has not what a copy needs\n");
        return 1;
    }
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        for (size_t j = 0; j < sizeof kinds / sizeof *kinds; j++)
            measure(&steps[i], &kinds[j]);
    att_close(session);
    return 0;
}
