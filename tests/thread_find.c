/* Many threads, one session: each kernel is compiled once and is the same for all, launches run side by side, and
   messages stay with their thread. Meant for the thread sanitizer, but useful without it. */
#include "session.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 8, ROUNDS = 3, COLS = 64 };

static const char *const schedules[] = {"threads=32", "threads=64", "algorithm=three_pass"};
enum { KERNELS = sizeof schedules / sizeof *schedules };

static att_session *session;
static att_kernel *kernels[THREADS][KERNELS];
static atomic_int compiles, failures;

static void count_compiles(void *context, enum att_log_level level, const char *message) {
    (void)context, (void)level;
    if (strncmp(message, "compiled ", 9) == 0)
        atomic_fetch_add(&compiles, 1);
}

static void expect(bool good, const char *what) {
    if (good)
        return;
    fprintf(stderr, "%s: %s\n", what, att_message(session));
    atomic_fetch_add(&failures, 1);
}

static void launch(att_kernel *kernel, void *x, void *y) {
    float in[COLS], out[COLS], sum = 0;
    for (int i = 0; i < COLS; i++)
        in[i] = (float)(i % 5);
    expect(att_copy_in(session, x, in, sizeof in) == ATT_OK, "copy in");
    struct att_args args = {.size = sizeof args, .family = ATT_SOFTMAX, .softmax = {x, y, COLS, COLS, 1, COLS}};
    expect(att_launch(kernel, &args, NULL) == ATT_OK, "launch");
    expect(att_copy_out(session, out, y, sizeof out) == ATT_OK, "copy out");
    for (int i = 0; i < COLS; i++)
        sum += out[i];
    expect(sum > 0.999f && sum < 1.001f, "a row of weights adds up to one");
}

static void *work(void *context) {
    att_kernel **mine = context;
    att_kernel *none;
    char bad[64];
    void *x, *y;
    expect(att_alloc(session, COLS * sizeof(float), &x) == ATT_OK &&
               att_alloc(session, COLS * sizeof(float), &y) == ATT_OK,
           "alloc");
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < KERNELS; i++) {
            att_kernel *kernel = NULL;
            expect(att_find(session, "family=softmax", schedules[i], &kernel) == ATT_OK, "find");
            expect(round == 0 || kernel == mine[i], "the same kernel each time");
            mine[i] = kernel;
            if (kernel) {
                expect(att_prepare(kernel) == ATT_OK, "prepare");
                launch(kernel, x, y);
                if (round > 0) /* the first find of each kernel is kept */
                    att_release(kernel);
            }
            snprintf(bad, sizeof bad, "family=wrong%d", (int)((att_kernel * (*)[KERNELS]) context - kernels));
            expect(att_find(session, bad, NULL, &none) == ATT_INVALID_TEXT, "a bad problem");
            expect(strstr(att_message(session), bad + strlen("family=")), "this thread's own message");
        }
    att_free(session, x);
    att_free(session, y);
    return NULL;
}

int main(void) {
    const struct att_options options = {.size = sizeof options,
                                        .device = ATT_DEVICE_HOST,
                                        .host_mode = ATT_HOST_FAST,
                                        .no_disk_cache = 1,
                                        .log = count_compiles};
    pthread_t threads[THREADS];
    if (att_open(&options, &session) != ATT_OK) {
        fprintf(stderr, "%s\n", att_message(session));
        return 1;
    }
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, kernels[i]);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 1; i < THREADS; i++)
        for (int j = 0; j < KERNELS; j++)
            expect(kernels[i][j] == kernels[0][j], "the same kernel for all threads");
    expect(atomic_load(&compiles) == KERNELS, "each kernel compiled once");
    att_close(session);
    return atomic_load(&failures) ? 1 : 0;
}
