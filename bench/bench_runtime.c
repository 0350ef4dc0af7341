/* bench_runtime: what the library itself costs: finding a kernel that is in memory or on disk, and launching one.

       bench_runtime [COMMIT]      JSON lines on stdout

   On the GPU where there is one, else on the host device, whose launches run to their end and are left out. */
#include "session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

enum { MEMORY_HITS = 100000, DISK_HITS = 50, LAUNCHES = 10000, LEN = 64, DIM = 64 };

static const char problem[] = "family=attention_forward head_dim=64 mask=causal";

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void must(att_session *session, enum att_status status) {
    if (status == ATT_OK)
        return;
    fprintf(stderr, "%s: %s\n", att_status_name(status), att_message(session));
    exit(1);
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(const char *what, const char *device, double seconds, int count, const char *commit) {
    struct utsname machine;
    uname(&machine);
    printf("{\"bench\": \"runtime\", \"what\": \"%s\", \"device\": \"%s\", \"microseconds\": %.3f, \"count\": %d, "
           "\"system\": \"%s %s\", \"version\": \"%s\", \"commit\": \"%s\"}\n",
           what, device, seconds * 1e6, count, machine.sysname, machine.machine, att_version(), commit);
}

static att_session *open_session(const char *cache_dir) {
    const struct att_options options = {.cache_dir = cache_dir};
    att_session *session = NULL;
    enum att_status status = att_open(&options, &session);
    must(session, status);
    return session;
}

/* One find in a new session: the disk's answer, with expanding, hashing and loading. Median. */
static double time_disk_hit(const char *cache_dir) {
    static double seconds[DISK_HITS];
    for (int i = 0; i < DISK_HITS; i++) {
        att_session *session = open_session(cache_dir);
        struct att_kernel_info info;
        att_kernel *kernel;
        double start = now();
        must(session, att_find(session, problem, NULL, &kernel));
        seconds[i] = now() - start;
        must(session, att_kernel_describe(kernel, &info));
        if (strcmp(info.from, "disk") != 0)
            fprintf(stderr, "warning: measured a kernel from the %s\n", info.from);
        att_close(session);
    }
    qsort(seconds, DISK_HITS, sizeof *seconds, compare);
    return seconds[DISK_HITS / 2];
}

static double time_memory_hit(att_session *session) {
    att_kernel *kernel;
    double start = now();
    for (int i = 0; i < MEMORY_HITS; i++)
        must(session, att_find(session, problem, NULL, &kernel));
    return (now() - start) / MEMORY_HITS;
}

/* Time of the calls, not of the kernels: the stream is drained before its queue fills. */
static double time_launch(att_session *session, att_kernel *kernel) {
    enum { BATCH = 500 };
    const size_t bytes = LEN * DIM * sizeof(float);
    struct att_args args = {.attention = {.batch = 1, .heads = 1, .len_q = LEN, .len_kv = LEN}};
    struct att_tensor *tensors[] = {&args.attention.q, &args.attention.k, &args.attention.v, &args.attention.o};
    for (int i = 0; i < 4; i++) {
        must(session, att_alloc(session, bytes, &tensors[i]->data));
        tensors[i]->row_stride = DIM;
    }
    must(session, att_prepare(kernel));
    double total = 0;
    for (int done = 0; done < LAUNCHES; done += BATCH) {
        double start = now();
        for (int i = 0; i < BATCH; i++)
            must(session, att_launch(kernel, &args, NULL));
        total += now() - start;
        must(session, att_synchronize(session));
    }
    for (int i = 0; i < 4; i++)
        must(session, att_free(session, tensors[i]->data));
    return total / LAUNCHES;
}

int main(int argc, char **argv) {
    const char *commit = argc > 1 ? argv[1] : "";
    char cache_dir[] = "/tmp/attile-bench-XXXXXX", command[64];
    att_kernel *kernel;
    struct att_session_info info;
    if (!mkdtemp(cache_dir))
        return 1;
    att_session *session = open_session(cache_dir);
    must(session, att_session_describe(session, &info));
    double start = now();
    must(session, att_find(session, problem, NULL, &kernel));
    report("find, compiled", info.device_name, now() - start, 1, commit);
    report("find, in memory", info.device_name, time_memory_hit(session), MEMORY_HITS, commit);
    report("find, on disk (median)", info.device_name, time_disk_hit(cache_dir), DISK_HITS, commit);
    if (info.device == ATT_DEVICE_CUDA)
        report("launch call", info.device_name, time_launch(session, kernel), LAUNCHES, commit);
    att_close(session);
    snprintf(command, sizeof command, "rm -r %s", cache_dir);
    return system(command) ? 1 : 0;
}
