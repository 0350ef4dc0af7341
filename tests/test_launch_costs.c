/* A launch of a prepared kernel neither allocates nor locks, whatever its sizes are, and whichever kernel they take. The device is the host's
   under the name of a GPU that the tuned tables know; its compiler and its launches do nothing. Under the sanitizers, which bring their own
   malloc, there is nothing to count. */
#include "model.h"
#include "session.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdlib.h>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__GLIBC__)

#define EVERYWHERE __attribute__((visibility("default")))

static _Atomic long allocations, locks;

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);

EVERYWHERE void *malloc(size_t size) {
    allocations++;
    return __libc_malloc(size);
}
EVERYWHERE void *calloc(size_t count, size_t size) {
    allocations++;
    return __libc_calloc(count, size);
}
EVERYWHERE void *realloc(void *block, size_t size) {
    allocations++;
    return __libc_realloc(block, size);
}

static int (*lock_mutex)(pthread_mutex_t *mutex);
EVERYWHERE int pthread_mutex_lock(pthread_mutex_t *mutex) {
    locks++;
    return lock_mutex(mutex);
}
__attribute__((constructor)) static void find_lock(void) {
    *(void **)&lock_mutex = dlsym(RTLD_NEXT, "pthread_mutex_lock");
}

static struct backend_type gpu;
static struct module *launched; /* the module of the last launch */

static enum att_status compile(struct backend *backend, const struct compile_job *job, struct binary *binary,
                               struct failure *failure) {
    (void)backend, (void)job, (void)failure;
    *binary = (struct binary){.bytes = malloc(1), .size = 1};
    return ATT_OK;
}

static enum att_status load(struct backend *backend, const void *bytes, size_t size, const struct plan *plan,
                            struct module **module, struct failure *failure) {
    (void)backend, (void)bytes, (void)size, (void)plan, (void)failure;
    *module = malloc(1);
    return ATT_OK;
}

static void unload(struct backend *backend, struct module *module) {
    (void)backend;
    free(module);
}

static enum att_status launch(struct backend *backend, struct module *module, int number, int64_t grid,
                              const void *params, size_t size, void *stream, struct failure *failure) {
    (void)backend, (void)number, (void)grid, (void)params, (void)size, (void)stream, (void)failure;
    launched = module;
    return ATT_OK;
}

static att_session *open_h200(void) {
    const struct att_options options = {
        .size = sizeof options, .device = ATT_DEVICE_HOST, .host_mode = ATT_HOST_FAST, .no_disk_cache = 1};
    att_session *session;
    cr_assert_eq(att_open(&options, &session), ATT_OK, "%s", att_message(session));
    gpu = backend_host;
    gpu.compile = compile;
    gpu.load = load;
    gpu.unload = unload;
    gpu.launch = launch;
    session->type = &gpu;
    session->info.device_name = "NVIDIA H200";
    session->info.arch = "sm_90a";
    session->info.arch_number = 90;
    session->info.sm_count = 132;
    session->modelled = model_gpu_find("NVIDIA H200", &session->gpu);
    return session;
}

enum { DIM = 128 };

/* Tensors at some addresses: nobody reads them. */
static struct att_tensor tensor(int number, int64_t heads, int64_t length) {
    return (struct att_tensor){(char *)(1ull << 40) + (1ull << 36) * (unsigned)number, heads * length * DIM,
                               length * DIM, DIM};
}

static struct att_args arguments(int64_t batch, int64_t heads, int64_t length) {
    return (struct att_args){.size = sizeof(struct att_args),
                             .family = ATT_ATTENTION_FORWARD,
                             .attention = {.q = tensor(0, heads, length),
                                           .k = tensor(1, heads, length),
                                           .v = tensor(2, heads, length),
                                           .o = tensor(3, heads, length),
                                           .batch = batch,
                                           .heads = heads,
                                           .kv_heads = heads,
                                           .len_q = length,
                                           .len_kv = length,
                                           .scale = 0.1f}};
}

Test(launch_costs, neither_allocations_nor_locks) {
    static const int64_t lengths[] = {1, 40, 300, 512, 777, 1000, 2048, 3000, 5000, 8192, 16384};
    enum { LENGTHS = sizeof lengths / sizeof *lengths };
    att_session *session = open_h200();
    att_kernel *kernel;
    int others = 0;
    cr_assert_eq(att_find(session, "family=attention_forward dtype=bf16 head_dim=128 mask=causal", NULL, &kernel),
                 ATT_OK, "%s", att_message(session));
    cr_assert_eq(att_prepare(kernel), ATT_OK, "%s", att_message(session));
    for (int i = 0; i < 4 * LENGTHS; i++) {
        struct att_args args = arguments(i / LENGTHS % 2 * 3 + 1, 16, lengths[i % LENGTHS]);
        if (i >=
            2 * LENGTHS) { /* else some kernels lack the memory that they need, and the found one takes their place */
            args.workspace = (void *)(1ull << 44);
            args.workspace_size = 1ull << 40;
        }
        for (int again = 0; again < 2; again++) {
            const long allocated = allocations, locked = locks;
            const enum att_status status = att_launch(kernel, &args, NULL);
            cr_expect(allocations == allocated && locks == locked, "batch %d, %d tokens: %ld allocations and %ld locks",
                      (int)args.attention.batch, (int)args.attention.len_q, allocations - allocated, locks - locked);
            cr_assert_eq(status, ATT_OK, "%s", att_message(session));
        }
        others += launched != kernel->module;
    }
    cr_expect(others > 5 && others < 4 * LENGTHS, "%d take another kernel than the found one", others);
    att_close(session);
}

#else

Test(launch_costs, neither_allocations_nor_locks) { cr_skip_test("the sanitizer brings its own malloc"); }

#endif
