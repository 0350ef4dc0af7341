/* The library when memory runs out: every allocation between att_open and att_close is refused once, one after the
   other. There must never be a crash or a wrong answer: each step succeeds or says why not, and the next session works.
   Under the sanitizers, which bring their own malloc, there is nothing to test with. */
#include "attile.h"

#include <criterion/criterion.h>
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__GLIBC__)

#define EVERYWHERE __attribute__((visibility("default"))) /* for libc and libyaml too */

static _Atomic long allocations_left = -1; /* -1 = unlimited */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);

/* Refuses one allocation, then no more. */
static bool refused(void) {
    if (allocations_left < 0)
        return false;
    return allocations_left-- == 0;
}

EVERYWHERE void *malloc(size_t size) { return refused() ? NULL : __libc_malloc(size); }
EVERYWHERE void *calloc(size_t count, size_t size) { return refused() ? NULL : __libc_calloc(count, size); }
EVERYWHERE void *realloc(void *block, size_t size) { return refused() ? NULL : __libc_realloc(block, size); }

enum { COLS = 40 };

static char cache_dir[] = "/tmp/attile-memory-XXXXXX";

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *ftw) {
    (void)status, (void)type, (void)ftw;
    return remove(path);
}

/* The compiler and the loader have their own statuses for a lack of memory; all other failures are
   ATT_OUT_OF_MEMORY. */
static bool failed(enum att_status status, long n) {
    cr_assert(status == ATT_OK || status == ATT_OUT_OF_MEMORY || status == ATT_NO_COMPILER || status == ATT_UNSUPPORTED,
              "allocation %ld: %s", n, att_status_name(status));
    return status != ATT_OK;
}

/* Goes from open to result; true when all of it worked. Softmax of a row of equal numbers is a row of 1 / COLS. */
static bool compute(long n) {
    const struct att_options options = {
        .size = sizeof options, .device = ATT_DEVICE_HOST, .host_mode = ATT_HOST_FAST, .cache_dir = cache_dir};
    float x[COLS], y[COLS];
    char text[512];
    att_session *session;
    att_kernel *kernel;
    void *dx = NULL, *dy = NULL;
    for (int i = 0; i < COLS; i++)
        x[i] = 3;
    bool good = !failed(att_open(&options, &session), n) &&
                !failed(att_explain(session, "family=softmax", NULL, text, sizeof text, NULL), n) &&
                !failed(att_find(session, "family=softmax", NULL, &kernel), n) && !failed(att_prepare(kernel), n) &&
                !failed(att_alloc(session, sizeof x, &dx), n) && !failed(att_alloc(session, sizeof y, &dy), n) &&
                !failed(att_copy_in(session, dx, x, sizeof x), n);
    if (good) {
        struct att_args args = {.size = sizeof args, .family = ATT_SOFTMAX, .softmax = {dx, dy, COLS, COLS, 1, COLS}};
        good = !failed(att_launch(kernel, &args, NULL), n) && !failed(att_copy_out(session, y, dy, sizeof y), n);
    }
    for (int i = 0; good && i < COLS; i++)
        cr_assert(fabsf(y[i] - 1.0f / COLS) < 1e-6f, "allocation %ld: y[%d] is %g", n, i, (double)y[i]);
    if (dx)
        att_free(session, dx);
    if (dy)
        att_free(session, dy);
    (void)att_message(session);
    att_close(session);
    return good;
}

Test(session_memory, every_refused_allocation_is_survived) {
    cr_assert_not_null(mkdtemp(cache_dir));
    cr_assert(compute(-1), "with all the memory there is");
    long n = 0, failures = 0;
    for (bool reached = true; reached; n++) {
        allocations_left = n;
        failures += !compute(n);
        reached = allocations_left < 0;
        allocations_left = -1;
        cr_assert_lt(n, 100000);
    }
    cr_expect_gt(failures, 10, "refusals must have been felt");
    cr_expect(compute(-1), "and the cache is still good");
    nftw(cache_dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    cr_log_info("%ld allocations, %ld failures\n", n, failures);
}

#else

Test(session_memory, every_refused_allocation_is_survived) { cr_skip_test("the sanitizer brings its own malloc"); }

#endif
