/* bench_runtime: the cost of the library itself: finding a kernel in memory, on disk and by compiling, and launching
   one.

       bench_runtime [COMMIT]      JSON lines on stdout

   Finding is measured on the GPU if there is one. Wherever there is NVRTC, it is also measured up to the point where
   the driver loads the kernel, by sessions that only compile for sm_90a: within a process, and from att_open on in a
   new process, in which nothing is loaded or parsed yet, without and with quick_first. A launch is measured beside the
   driver's own launch of an empty kernel with as many bytes of parameters. */
#include "clock.h"
#include "cuda_api.h"
#include "session.h"
#include "tensor_maps.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { MEMORY_HITS = 100000, DISK_HITS = 50, COMPILES = 3, PROCESSES = 20, ROUNDS = 20, BATCH = 500, LEN = 64 };

enum { MAPPED = 4 * sizeof(struct tensor_map) + sizeof(struct attention_params) }; /* maps of q, k, v and o */

static const struct problem {
    const char *name, *problem, *schedule;
    int head_dim, element_bytes;
    size_t parameter_bytes;
} problem_table[] = {
    {"fp32 d64 causal, the library's choice", "family=attention_forward head_dim=64 mask=causal", NULL, 64, 4,
     sizeof(struct attention_params)},
    {"flash_async bf16 d64 causal", "family=attention_forward dtype=bf16 head_dim=64 mask=causal target=sm_90a",
     "algorithm=flash_async", 64, 2, MAPPED},
    {"flash_async bf16 d128 causal", "family=attention_forward dtype=bf16 head_dim=128 mask=causal target=sm_90a",
     "algorithm=flash_async", 128, 2, MAPPED},
    {"flash_async bf16 d256 causal", "family=attention_forward dtype=bf16 head_dim=256 mask=causal target=sm_90a",
     "algorithm=flash_async", 256, 2, MAPPED},
};

static char cache_folder[PATH_MAX] = "/tmp/attile-bench-XXXXXX";
static const char no_folder[] = "-"; /* nothing on disk */
static const char *commit = "";

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

static double median(double *seconds, int count) {
    qsort(seconds, (size_t)count, sizeof *seconds, compare);
    return seconds[count / 2];
}

static void report(const char *what, const char *name, att_session *session, double seconds, int count) {
    struct utsname machine;
    struct att_session_info info = {.size = sizeof info};
    uname(&machine);
    must(session, att_session_describe(session, &info));
    printf("{\"bench\": \"runtime\", \"what\": \"%s\", \"kernel\": \"%s\", \"device\": \"%s\", \"microseconds\": %.3f, "
           "\"count\": %d, \"compiler\": \"%s\", \"system\": \"%s %s\", \"version\": \"%s\", \"commit\": \"%s\"}\n",
           what, name, info.device_name, seconds * 1e6, count, info.compiler, machine.sysname, machine.machine,
           att_version(), commit);
    fflush(stdout);
}

/* Opens a session. compile_for: as in session_open. */
static att_session *open_session(const char *compile_for, bool keep) {
    const struct att_options options = {.size = sizeof options, .cache_dir = cache_folder, .no_disk_cache = !keep};
    att_session *session = NULL;
    enum att_status status = session_open(&options, compile_for, &session);
    must(session, status);
    return session;
}

/* Finds a kernel; the find may end where a GPU is needed. */
static att_kernel *find(att_session *session, const struct problem *problem) {
    att_kernel *kernel = NULL;
    enum att_status status = att_find(session, problem->problem, problem->schedule, &kernel);
    if (status != ATT_NO_DEVICE)
        must(session, status);
    return kernel;
}

/* Median time of the first find of a session, by the compiler or from disk. Library and templates are loaded. */
static double time_first_find(const struct problem *problem, const char *compile_for, bool from_disk, int count) {
    double seconds[DISK_HITS];
    for (int i = 0; i < count; i++) {
        att_session *session = open_session(compile_for, from_disk);
        struct att_session_info info = {.size = sizeof info};
        must(session, att_session_describe(session, &info)); /* opens the compiler, once per process */
        double start = clock_seconds();
        find(session, problem);
        seconds[i] = clock_seconds() - start;
        att_close(session);
    }
    return median(seconds, count);
}

/* `bench_runtime fresh PROBLEM FOLDER|- QUICK`: times one att_open and one find. */
static int find_once(char **arguments) {
    struct problem problem = problem_table[atoi(arguments[0])];
    const struct att_options options = {.size = sizeof options,
                                        .cache_dir = arguments[1],
                                        .no_disk_cache = strcmp(arguments[1], no_folder) == 0,
                                        .quick_first = atoi(arguments[2])};
    double start = clock_seconds();
    att_session *session = NULL;
    must(session, session_open(&options, "sm_90a", &session));
    if (options.quick_first) /* a requested schedule has no quick substitute */
        problem.schedule = NULL;
    find(session, &problem);
    printf("%.9f\n", clock_seconds() - start);
    fflush(stdout);
    att_close(session);
    return 0;
}

/* Median time of find_once in new processes. */
static double time_processes(const struct problem *problem, const char *folder, bool quick, int count) {
    char command[PATH_MAX + 64];
    double seconds[PROCESSES];
    snprintf(command, sizeof command, "/proc/%d/exe fresh %d %s %d", (int)getpid(), (int)(problem - problem_table),
             folder, quick);
    for (int i = 0; i < count; i++) {
        FILE *output = popen(command, "r");
        if (!output || fscanf(output, "%lf", &seconds[i]) != 1 || pclose(output) != 0)
            exit(1);
    }
    return median(seconds, count);
}

static void measure_finds(const struct problem *problem, const char *compile_for) {
    const char *until = compile_for ? ", until the driver loads it" : "";
    char what[96];
    att_session *session = open_session(compile_for, true);
    find(session, problem); /* from now on it is on disk */
    snprintf(what, sizeof what, "find, compiled (median)%s", until);
    report(what, problem->name, session, time_first_find(problem, compile_for, false, COMPILES), COMPILES);
    snprintf(what, sizeof what, "find, on disk (median)%s", until);
    report(what, problem->name, session, time_first_find(problem, compile_for, true, DISK_HITS), DISK_HITS);
    if (compile_for) {
        report("att_open and find in a new process, on disk (median)", problem->name, session,
               time_processes(problem, cache_folder, false, PROCESSES), PROCESSES);
        report("att_open and find in a new process, compiled (median)", problem->name, session,
               time_processes(problem, no_folder, false, COMPILES), COMPILES);
        report("att_open and find in a new process, compiled, quick_first (median)", problem->name, session,
               time_processes(problem, no_folder, true, COMPILES), COMPILES);
    } else {
        double start = clock_seconds();
        for (int i = 0; i < MEMORY_HITS; i++)
            find(session, problem);
        report("find, in memory", problem->name, session, (clock_seconds() - start) / MEMORY_HITS, MEMORY_HITS);
    }
    att_close(session);
}

/* Median time of the launch calls, not of the kernels: the stream is drained before its queue fills. */
static double time_launch(att_session *session, const struct problem *problem) {
    struct att_args args = {.size = sizeof args,
                            .family = ATT_ATTENTION_FORWARD,
                            .attention = {.batch = 1, .heads = 1, .len_q = LEN, .len_kv = LEN}};
    struct att_tensor *tensors[] = {&args.attention.q, &args.attention.k, &args.attention.v, &args.attention.o};
    att_kernel *kernel = find(session, problem);
    for (int i = 0; i < 4; i++) {
        must(session,
             att_alloc(session, (size_t)(LEN * problem->head_dim * problem->element_bytes), &tensors[i]->data));
        tensors[i]->row_stride = problem->head_dim;
    }
    must(session, att_prepare(kernel));
    double seconds[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        double start = clock_seconds();
        for (int i = 0; i < BATCH; i++)
            must(session, att_launch(kernel, &args, NULL));
        seconds[round] = (clock_seconds() - start) / BATCH;
        must(session, att_synchronize(session));
    }
    for (int i = 0; i < 4; i++)
        must(session, att_free(session, tensors[i]->data));
    return median(seconds, ROUNDS);
}

/* Median time of a launch call of the driver alone. */
static double time_driver_launch(size_t parameter_bytes) {
    static const char source[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                                 ".visible .entry empty(.param .align 64 .b8 p[%zu]) { ret; }\n";
    static _Alignas(64) char parameters[4096];
    char text[256];
    struct cuda_api api = {0};
    struct failure failure = {0};
    void *context, *module, *function, *values[] = {parameters};
    int device;
    snprintf(text, sizeof text, source, parameter_bytes);
    if (parameter_bytes > sizeof parameters || cuda_api_open(&api, &failure) != ATT_OK || api.device_get(&device, 0) ||
        api.primary_retain(&context, device) || api.push(context) || api.module_load(&module, text) ||
        api.module_function(&function, module, "empty")) {
        fprintf(stderr, "the driver did not take an empty kernel\n");
        exit(1);
    }
    const struct cuda_launch launch = {.grid = {1, 1, 1}, .block = {128, 1, 1}};
    double seconds[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        double start = clock_seconds();
        for (int i = 0; i < BATCH; i++)
            if (api.launch(&launch, function, values, NULL))
                exit(1);
        seconds[round] = (clock_seconds() - start) / BATCH;
        api.context_synchronize();
    }
    api.module_unload(module);
    api.pop(&context);
    api.primary_release(device);
    return median(seconds, ROUNDS);
}

/* True if this machine can compile for a GPU, that is, if it has NVRTC. */
static bool compiles_for_gpu(void) {
    const struct att_options options = {.size = sizeof options, .cache_dir = cache_folder, .device = ATT_DEVICE_CUDA};
    att_session *session = NULL;
    bool works = session_open(&options, "sm_90a", &session) == ATT_OK;
    if (!works)
        fprintf(stderr, "without a compiler for GPUs: %s\n", att_message(session));
    att_close(session);
    return works;
}

int main(int argc, char **argv) {
    enum { PROBLEMS = sizeof problem_table / sizeof *problem_table };
    char command[PATH_MAX + 16];
    if (argc == 5 && strcmp(argv[1], "fresh") == 0)
        return find_once(argv + 2);
    commit = argc > 1 ? argv[1] : "";
    if (!mkdtemp(cache_folder))
        return 1;
    att_session *session = open_session(NULL, true);
    struct att_session_info info = {.size = sizeof info};
    must(session, att_session_describe(session, &info));
    bool on_gpu = info.device == ATT_DEVICE_CUDA, compiles = compiles_for_gpu();
    for (int i = 0; i < PROBLEMS; i++) {
        if (compiles)
            measure_finds(&problem_table[i], "sm_90a");
        if (on_gpu || i == 0) /* the host device only once: nobody waits for its compiler */
            measure_finds(&problem_table[i], NULL);
        if (!on_gpu)
            continue;
        report("launch call", problem_table[i].name, session, time_launch(session, &problem_table[i]), ROUNDS * BATCH);
        report("launch call of the driver alone, empty kernel", problem_table[i].name, session,
               time_driver_launch(problem_table[i].parameter_bytes), ROUNDS * BATCH);
    }
    att_close(session);
    snprintf(command, sizeof command, "rm -r %s", cache_folder);
    return system(command) ? 1 : 0;
}
