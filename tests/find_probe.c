/* find_probe: one cold or warm att_find, for tests that make its system calls fail.

       find_probe CACHE_DIRECTORY host      on the host device: find the kernel, run it, check its result
       find_probe CACHE_DIRECTORY sm_90a    compile it with NVRTC, for no particular GPU

   Calls of getppid mark the start of the use, the point where the session is open, and the point where the kernel is
   found, so that a trace shows the calls between them. SIGALRM kills the probe when it hangs. */
#include "find_probe.h"
#include "session.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

enum { COLS = 40 };

/* Softmax of a row of equal numbers is a row of 1 / COLS. */
static bool computes(att_session *session, att_kernel *kernel) {
    float row[COLS];
    void *memory;
    for (int i = 0; i < COLS; i++)
        row[i] = 3;
    struct att_args args = {.size = sizeof args,
                            .family = ATT_SOFTMAX,
                            .softmax = {.x_row_stride = COLS, .y_row_stride = COLS, .rows = 1, .cols = COLS}};
    if (att_alloc(session, sizeof row, &memory) != ATT_OK || att_copy_in(session, memory, row, sizeof row) != ATT_OK)
        return false;
    args.softmax.x = args.softmax.y = memory;
    if (att_launch(kernel, &args, NULL) != ATT_OK || att_copy_out(session, row, memory, sizeof row) != ATT_OK)
        return false;
    for (int i = 0; i < COLS; i++)
        if (fabsf(row[i] * COLS - 1) > 1e-5f)
            return false;
    return true;
}

static enum probe_result failed(const att_session *session) {
    return *att_message(session) ? PROBE_FAILED : PROBE_WRONG; /* every failure needs a reason */
}

static enum probe_result use(att_session *session, enum att_status opened) {
    att_kernel *kernel;
    struct att_kernel_info info = {.size = sizeof info};
    if (opened != ATT_OK || att_find(session, "family=softmax", "algorithm=online", &kernel) != ATT_OK)
        return failed(session);
    getppid();
    att_kernel_describe(kernel, &info);
    return !computes(session, kernel) ? PROBE_WRONG : strcmp(info.from, "disk") == 0 ? PROBE_HIT : PROBE_BUILT;
}

static enum probe_result compile(att_session *session, enum att_status opened) {
    struct att_kernel_info info = {.size = sizeof info};
    struct failure failure = {0};
    struct request request;
    struct choice choice = {0};
    if (opened != ATT_OK)
        return failed(session);
    if (choose_read(session, "family=softmax", "algorithm=online", &request, &failure) != ATT_OK ||
        !choose_next(session, &request, &choice, NULL))
        return PROBE_WRONG;
    enum att_status status = kernel_compile(session, &choice.variant, &info, &failure);
    getppid();
    bool said = failure.text.size;
    failure_clear(&failure);
    return status != ATT_OK ? said ? PROBE_FAILED : PROBE_WRONG : info.compile_seconds > 0.0 ? PROBE_BUILT : PROBE_HIT;
}

int main(int count, char **arguments) {
    if (count != 3)
        return PROBE_WRONG;
    bool host = strcmp(arguments[2], "host") == 0;
    const struct att_options options = {.size = sizeof options,
                                        .device = host ? ATT_DEVICE_HOST : ATT_DEVICE_CUDA,
                                        .host_mode = ATT_HOST_FAST,
                                        .cache_dir = arguments[1]};
    att_session *session;
    alarm(20);
    getppid();
    enum att_status opened = session_open(&options, host ? NULL : arguments[2], &session);
    getppid();
    enum probe_result result = host ? use(session, opened) : compile(session, opened);
    att_close(session);
    return (int)result;
}
