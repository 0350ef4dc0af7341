#include "pool.h"
#include "clock.h"

#include "session.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TICK_MS = 100, IDLE = -1, WORKERS_MOST = 256 };

const char *compile_outcome_name(enum compile_outcome outcome) {
    static const char *const names[] = {"not tried", "good", "refused", "crashed", "hung"};
    return names[outcome];
}

/* --- in the worker ------------------------------------------------------------------------------------------------ */

static void refuse(struct compiled *compiled, enum att_status status, const char *message) {
    compiled->outcome = COMPILE_REFUSED;
    compiled->status = status;
    snprintf(compiled->message, sizeof compiled->message, "%s", message);
}

static void compile_one(att_session *session, const struct variant *variant, struct compiled *compiled) {
    struct failure failure = {0};
    struct att_kernel_info info = {.size = sizeof info};
    enum att_status status = kernel_compile(session, variant, &info, &failure);
    if (status != ATT_OK)
        refuse(compiled, status, text_string(&failure.text));
    else
        *compiled = (struct compiled){.outcome = COMPILE_GOOD,
                                      .registers = info.registers,
                                      .spill_bytes = info.spill_bytes,
                                      .shared_bytes = info.shared_bytes,
                                      .threads = info.threads,
                                      .instructions = info.instructions,
                                      .seconds = info.compiler_seconds};
    failure_clear(&failure);
}

static void compile_body(void *context, int channel) {
    const struct pool_options *options = context;
    struct att_options session_options = {
        .size = sizeof session_options, .device = ATT_DEVICE_CUDA, .template_dir = options->template_dir};
    att_session *session = NULL;
    struct variant variant;
    enum att_status status = session_open(&session_options, options->arch, &session);
    while (worker_receive(channel, &variant, sizeof variant)) {
        struct compiled compiled = {.registers = -1, .spill_bytes = -1, .instructions = -1};
        if (status == ATT_OK)
            compile_one(session, &variant, &compiled);
        else
            refuse(&compiled, status, session ? att_message(session) : "out of memory");
        if (!worker_send(channel, &compiled, sizeof compiled))
            break;
    }
    att_close(session);
}

/* --- in the parent ------------------------------------------------------------------------------------------------ */

struct seat {
    struct worker worker;
    int item; /* the item it compiles, or IDLE */
    double deadline;
};

struct pool {
    const struct pool_options *options;
    const struct variant *variant;
    struct compiled *result;
    struct text *error;
    int count, next, done, seats;
    struct seat seat[WORKERS_MOST];
};

static bool start(struct pool *pool, struct seat *seat) {
    worker_body *body = pool->options->body ? pool->options->body : compile_body;
    seat->item = IDLE;
    return worker_start(&seat->worker, body, (void *)(uintptr_t)pool->options, pool->error);
}

/* Gives a seat its next variant. A worker that died while idle is restarted once. */
static bool hand_out(struct pool *pool, struct seat *seat) {
    if (pool->next == pool->count)
        return true;
    const struct variant *variant = &pool->variant[pool->next];
    if (seat->worker.process == 0 && !start(pool, seat))
        return false;
    if (!worker_send(seat->worker.channel, variant, sizeof *variant)) {
        worker_stop(&seat->worker, NULL);
        if (!start(pool, seat) || !worker_send(seat->worker.channel, variant, sizeof *variant)) {
            text_print(pool->error, "workers end before they are asked for anything");
            return false;
        }
    }
    seat->item = pool->next++;
    seat->deadline = clock_seconds() + pool->options->timeout;
    return true;
}

static void finish(struct pool *pool, struct seat *seat) {
    if (pool->options->progress)
        pool->options->progress(pool->options->context, ++pool->done, pool->variant[seat->item].name);
    seat->item = IDLE;
}

/* Handles a worker that answered or died. False when nothing more can be compiled. */
static bool take(struct pool *pool, struct seat *seat) {
    struct compiled *result = &pool->result[seat->item];
    if (!worker_receive(seat->worker.channel, result, sizeof *result)) {
        struct text how = {0};
        usleep(20000); /* until its exit status is available */
        worker_stop(&seat->worker, &how);
        *result = (struct compiled){.outcome = COMPILE_CRASHED, .registers = -1, .spill_bytes = -1, .instructions = -1};
        snprintf(result->message, sizeof result->message, "the compiling process %s",
                 how.size ? text_string(&how) : "closed its channel");
        text_free(&how);
    } else if (result->outcome == COMPILE_REFUSED && result->status == ATT_NO_COMPILER) {
        text_print(pool->error, "%s", result->message);
        return false;
    }
    finish(pool, seat);
    return true;
}

static void give_up(struct pool *pool, struct seat *seat) {
    struct compiled *result = &pool->result[seat->item];
    worker_stop(&seat->worker, NULL);
    *result = (struct compiled){.outcome = COMPILE_HUNG, .registers = -1, .spill_bytes = -1, .instructions = -1};
    snprintf(result->message, sizeof result->message, "no answer within %.0f s", pool->options->timeout);
    finish(pool, seat);
}

/* Waits briefly, and takes the answers that arrived. */
static bool wait_for_answers(struct pool *pool) {
    struct pollfd wait[WORKERS_MOST];
    for (int i = 0; i < pool->seats; i++)
        wait[i] = (struct pollfd){pool->seat[i].item == IDLE ? -1 : pool->seat[i].worker.channel, POLLIN, 0};
    if (poll(wait, (nfds_t)pool->seats, TICK_MS) < 0 && errno != EINTR) {
        text_print(pool->error, "cannot wait for workers: %s", strerror(errno));
        return false;
    }
    for (int i = 0; i < pool->seats; i++) {
        struct seat *seat = &pool->seat[i];
        if (seat->item != IDLE && wait[i].revents && !take(pool, seat))
            return false;
        if (seat->item != IDLE && clock_seconds() > seat->deadline)
            give_up(pool, seat);
    }
    return true;
}

static bool run(struct pool *pool) {
    for (;;) {
        int busy = 0;
        if (pool->options->interrupted && pool->options->interrupted())
            return true;
        for (int i = 0; i < pool->seats; i++) {
            if (pool->seat[i].item == IDLE && !hand_out(pool, &pool->seat[i]))
                return false;
            busy += pool->seat[i].item != IDLE;
        }
        if (busy == 0)
            return true;
        if (!wait_for_answers(pool))
            return false;
    }
}

bool pool_compile(const struct pool_options *options, const struct variant *variant, int count, struct compiled *result,
                  struct text *error) {
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    int jobs = options->jobs > 0 ? options->jobs : processors > 0 ? (int)processors : 1;
    struct pool *pool = calloc(1, sizeof *pool);
    for (int i = 0; i < count; i++)
        result[i] = (struct compiled){.registers = -1, .spill_bytes = -1, .instructions = -1};
    if (!pool) {
        text_print(error, "out of memory");
        return false;
    }
    *pool = (struct pool){.options = options, .variant = variant, .result = result, .error = error, .count = count};
    pool->seats = jobs < count ? jobs : count;
    if (pool->seats > WORKERS_MOST)
        pool->seats = WORKERS_MOST;
    for (int i = 0; i < pool->seats; i++)
        pool->seat[i] = (struct seat){.worker = {.channel = -1}, .item = IDLE};
    bool good = run(pool);
    for (int i = 0; i < pool->seats; i++)
        worker_stop(&pool->seat[i].worker, NULL);
    free(pool);
    return good;
}
