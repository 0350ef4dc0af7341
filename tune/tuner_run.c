/* Runs the tuner: one loop that hands orders to workers, waits for replies, and replaces workers that died or hang. */
#include "tuner_run.h"
#include "clock.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { GPUS = 16, JOBS = 64, HANDS = GPUS + JOBS, NONE = -1, BUDGET_MS = 200 };

static const double GREETING = 60;      /* maximum seconds for a worker to open its device */
static const double FIRST_PASS = 0.1;   /* maximum seconds of timing when a kernel is measured first */
static const double LONGEST_PASS = 0.2; /* and in any pass */
static const double COMPILING =
    0.6; /* part of the time after which measuring starts without the kernels that are not compiled yet */
static const double TIMING = 0.8; /* part of a pass's share for timing; the rest is for everything around it */

struct hand { /* a worker and its current job */
    struct worker worker;
    struct stand_options options;
    bool measures, greeted, busy;
    double since, until; /* of the current job; after `until` the worker counts as hanging */
    int kernel, cell, entrant;
};

struct crew {
    struct tuner *tuner;
    struct journal *journal;
    struct hand hand[HANDS];
    int hands;
    int next_cell; /* the cell whose kernels are compiled next */
    bool stop;     /* on a failure, with */
    enum att_status status;
    struct text *error;
    char arch[16];
};

static void stop(struct crew *crew, enum att_status status, const char *why) {
    if (!crew->stop)
        text_print(crew->error, "%s", why);
    crew->stop = true;
    crew->status = status;
}

/* --- writing down ------------------------------------------------------------------------------------------------- */

static void copy(char *to, size_t size, const char *from) { snprintf(to, size, "%s", from); }

static void print_schedule(const struct variant *variant, char *to, size_t size) {
    struct text text = {0};
    knob_flags schedule = 0;
    for (int id = 0; id < KNOB_COUNT; id++)
        schedule |= knob_table[id].group == KNOB_GROUP_SCHEDULE ? KNOB_FLAG(id) : 0;
    knobs_print(&variant->knobs, variant->used & schedule, &text);
    copy(to, size, text_string(&text));
    text_free(&text);
}

/* Completes a record with what the worker does not know, and appends it. */
static void write_down(struct crew *crew, struct record *record, int number, const struct tuner_cell *cell, int pass) {
    const struct tuner *tuner = crew->tuner;
    const struct tuner_kernel *kernel = &tuner->kernel[number];
    copy(record->device, sizeof record->device, tuner->setting.device);
    copy(record->arch, sizeof record->arch, tuner->setting.arch);
    copy(record->driver, sizeof record->driver, tuner->setting.driver);
    copy(record->compiler, sizeof record->compiler, tuner->setting.compiler);
    copy(record->generator, sizeof record->generator, tuner->setting.generator);
    copy(record->problem, sizeof record->problem, cell->problem);
    copy(record->shape, sizeof record->shape, cell->shape_text);
    copy(record->target, sizeof record->target, knob_word_name(KNOB_target, kernel->variant.knobs.target));
    copy(record->variant, sizeof record->variant, kernel->variant.name);
    copy(record->source, sizeof record->source, kernel->source);
    print_schedule(&kernel->variant, record->schedule, sizeof record->schedule);
    record->pass = pass;
    record->when = (int64_t)time(NULL);
    struct text error = {0};
    if (!journal_append(crew->journal, record, &error))
        stop(crew, ATT_IO, text_string(&error));
    text_free(&error);
}

static void write_failure(struct crew *crew, const struct hand *hand, const char *status, const char *why) {
    struct tuner *tuner = crew->tuner;
    struct record record;
    record_clear(&record);
    copy(record.status, sizeof record.status, status);
    copy(record.error, sizeof record.error, why);
    write_down(crew, &record, hand->kernel, &tuner->cell[hand->cell], 0);
    tuner_drop(tuner, hand->kernel);
    tuner->failed++;
}

/* --- workers ------------------------------------------------------------------------------------------------------ */

static bool start(struct crew *crew, struct hand *hand) {
    hand->greeted = false;
    hand->busy = true;
    hand->since = clock_seconds();
    hand->until = hand->since + GREETING;
    worker_body *body = crew->tuner->options.body ? crew->tuner->options.body : stand_body;
    if (worker_start(&hand->worker, body, &hand->options, crew->error))
        return true;
    crew->stop = true;
    crew->status = ATT_INTERNAL;
    return false;
}

static struct hand *add_hand(struct crew *crew, bool measures, int ordinal) {
    struct hand *hand = &crew->hand[crew->hands];
    *hand = (struct hand){.options = {.session = crew->tuner->options.session}, .measures = measures};
    hand->options.session.ordinal = ordinal;
    hand->cell = NONE;
    hand->options.compile_for = measures ? NULL : crew->arch;
    crew->hands++; /* before it starts, so that it is always stopped */
    return start(crew, hand) ? hand : NULL;
}

/* Waits for the greeting of a worker. False: there is none; *reply then says why. */
static bool await_greeting(struct hand *hand, struct reply *reply) {
    struct pollfd wait = {.fd = hand->worker.channel, .events = POLLIN};
    record_clear(&reply->record);
    reply->status = ATT_INTERNAL;
    if (poll(&wait, 1, (int)(1000 * GREETING)) != 1 || !worker_receive(hand->worker.channel, reply, sizeof *reply)) {
        reply->status = ATT_LAUNCH_FAILED;
        copy(reply->record.error, sizeof reply->record.error, "the device does not open: its worker died or hangs");
        return false;
    }
    hand->greeted = reply->status == ATT_OK;
    hand->busy = false;
    return hand->greeted;
}

/* Opens the devices. The first GPU defines the setting; others are used if they are equal to it. */
static bool open_devices(struct crew *crew) {
    struct tuner *tuner = crew->tuner;
    const struct tuner_options *options = &tuner->options;
    struct reply reply;
    struct hand *first = add_hand(crew, true, options->session.ordinal);
    if (!first || !await_greeting(first, &reply)) {
        if (first)
            stop(crew, reply.status, reply.record.error);
        return false;
    }
    tuner->setting = reply.record;
    copy(crew->arch, sizeof crew->arch, reply.record.arch);
    tuner->gpus = 1;
    for (int i = 1; !options->one_gpu && i < GPUS; i++) {
        struct hand *next = add_hand(crew, true, i);
        if (!next)
            return false;
        if (await_greeting(next, &reply) && strcmp(reply.record.device, tuner->setting.device) == 0) {
            tuner->gpus++;
            continue;
        }
        worker_stop(&next->worker, NULL); /* there is no such GPU, or it is a different one */
        crew->hands--;
        break;
    }
    return true;
}

static bool open_compilers(struct crew *crew) {
    struct tuner *tuner = crew->tuner;
    int waiting = 0, jobs = tuner->options.jobs;
    for (int i = 0; i < tuner->kernels; i++)
        waiting += tuner->kernel[i].state == KERNEL_NEW;
    if (jobs <= 0)
        jobs = (int)sysconf(_SC_NPROCESSORS_ONLN) - tuner->gpus;
    jobs = jobs < 1 ? 1 : jobs > JOBS ? JOBS : jobs;
    for (int i = 0; i < jobs && i < waiting; i++)
        if (!add_hand(crew, false, 0))
            return false;
    return true;
}

static void stop_all(struct crew *crew) {
    for (int i = 0; i < crew->hands; i++)
        worker_stop(&crew->hand[i].worker, NULL);
    crew->hands = 0;
}

/* --- orders ------------------------------------------------------------------------------------------------------- */

static bool give(struct crew *crew, struct hand *hand, const struct order *order) {
    hand->busy = true;
    hand->since = clock_seconds();
    hand->until = hand->since + crew->tuner->options.timeout;
    worker_send(hand->worker.channel, order, sizeof *order); /* if the worker is gone, its silence shows it */
    return true;
}

/* Orders the compilation of the next kernel that is not compiled yet, cell by cell. */
static bool order_compile(struct crew *crew, struct hand *hand) {
    struct tuner *tuner = crew->tuner;
    for (; crew->next_cell < tuner->cells; crew->next_cell++) {
        const struct tuner_cell *cell = &tuner->cell[crew->next_cell];
        for (int i = 0; !cell->done && i < cell->candidates; i++) {
            struct tuner_kernel *kernel = &tuner->kernel[cell->kernel[i]];
            if (kernel->state != KERNEL_NEW)
                continue;
            struct order order = {.variant = kernel->variant};
            kernel->state = KERNEL_COMPILING;
            hand->kernel = cell->kernel[i];
            hand->cell = crew->next_cell;
            return give(crew, hand, &order);
        }
    }
    return false;
}

static bool is_compiled(const struct tuner *tuner, const struct tuner_cell *cell) {
    for (int i = 0; i < cell->candidates; i++)
        if (tuner->kernel[cell->kernel[i]].state < KERNEL_READY)
            return false;
    return true;
}

/* Returns the next cell whose kernels are all compiled. If there is none, and no more cells wait than there are GPUs or
   compiling has taken long enough, returns one that still has kernels to compile. NONE = wait. */
static int next_cell(const struct tuner *tuner, int *waiting) {
    int first = NONE;
    *waiting = 0;
    for (int i = 0; i < tuner->cells; i++)
        *waiting += !tuner->cell[i].begun;
    for (int i = 0; i < tuner->cells; i++) {
        if (tuner->cell[i].begun)
            continue;
        if (is_compiled(tuner, &tuner->cell[i]))
            return i;
        first = first == NONE ? i : first;
    }
    bool long_enough = clock_seconds() > tuner->start + COMPILING * (tuner->end - tuner->start);
    return *waiting <= tuner->gpus || long_enough ? first : NONE;
}

/* Begins a cell. It gets a fair share of the remaining time. */
static bool begin_cell(struct crew *crew, struct hand *hand) {
    struct tuner *tuner = crew->tuner;
    int waiting;
    hand->cell = next_cell(tuner, &waiting);
    if (hand->cell == NONE)
        return false;
    struct tuner_cell *cell = &tuner->cell[hand->cell];
    cell->begun = true;
    cell->start = clock_seconds();
    cell->end = cell->start + (tuner->end - cell->start) / ((waiting + tuner->gpus - 1) / tuner->gpus);
    return true;
}

static void mark_ready(const struct tuner *tuner, struct tuner_cell *cell) {
    for (int i = 0; i < cell->candidates; i++)
        cell->contest.entrant[i].ready = tuner->kernel[cell->kernel[i]].state == KERNEL_READY;
}

static bool has_measurement(const struct tuner_cell *cell) {
    for (int i = 0; i < cell->candidates; i++)
        if (cell->contest.entrant[i].passes > 0 && !cell->contest.entrant[i].out)
            return true;
    return false;
}

/* Orders what the cell needs next. False: nothing now. */
static bool order_measure(struct crew *crew, struct hand *hand) {
    struct tuner *tuner = crew->tuner;
    while (hand->cell != NONE || begin_cell(crew, hand)) {
        struct tuner_cell *cell = &tuner->cell[hand->cell];
        double time = clock_seconds();
        mark_ready(tuner, cell);
        if (time > cell->start + COMPILING * (cell->end - cell->start) && has_measurement(cell))
            cell->contest.closed = true;
        enum contest_state state = contest_next(&cell->contest, &hand->entrant);
        if (state == CONTEST_WAIT && time < cell->end)
            return false;
        bool late = time >= cell->end && (has_measurement(cell) || time >= tuner->end);
        if (state == CONTEST_OVER || late) {
            cell->done = true;
            hand->cell = NONE;
            continue;
        }
        if (state == CONTEST_WAIT)
            return false;
        int passes = cell->contest.entrant[hand->entrant].passes, left = contest_left(&cell->contest);
        double share = (cell->end - time) / (left > 0 ? left : 1);
        hand->kernel = cell->kernel[hand->entrant];
        struct order order = {.variant = tuner->kernel[hand->kernel].variant,
                              .shape = cell->shape,
                              .seconds = fmin(TIMING * share, passes ? LONGEST_PASS : FIRST_PASS)};
        return give(crew, hand, &order);
    }
    return false;
}

/* --- replies ------------------------------------------------------------------------------------------------------ */

/* Some failures do not concern a kernel: then it is pointless to go on. */
static bool is_fatal(const struct record *record) {
    return strcmp(record->status, "session") == 0 || strcmp(record->status, "stage") == 0 ||
           strcmp(record->status, "compiler") == 0;
}

static void take_measurement(struct crew *crew, struct hand *hand, struct record *record) {
    struct tuner *tuner = crew->tuner;
    struct tuner_cell *cell = &tuner->cell[hand->cell];
    struct entrant *entrant = &cell->contest.entrant[hand->entrant];
    write_down(crew, record, hand->kernel, cell, entrant->passes);
    if (crew->stop) /* what is not written does not count */
        return;
    if (record_ok(record)) {
        contest_note(&cell->contest, hand->entrant, tuner->options.warm ? record->warm_median : record->cold_median);
        tuner->measured++;
        return;
    }
    tuner->failed++;
    entrant->out = true;
    if (strcmp(record->status, "refused") != 0)
        tuner_drop(tuner, hand->kernel);
}

/* Replaces a worker. It ends by itself after a fault, since later results on that device cannot be trusted: no order
   may reach it. */
static void replace(struct crew *crew, struct hand *hand) {
    worker_stop(&hand->worker, NULL);
    if (!crew->stop)
        start(crew, hand);
}

static void take_reply(struct crew *crew, struct hand *hand, struct reply *reply) {
    struct tuner *tuner = crew->tuner;
    struct record *record = &reply->record;
    hand->busy = false;
    if (is_fatal(record)) {
        stop(crew, reply->status, record->error);
    } else if (!hand->greeted) {
        hand->greeted = true;
    } else if (hand->measures) {
        take_measurement(crew, hand, record);
        if (strcmp(record->status, "fault") == 0)
            replace(crew, hand);
    } else if (record_ok(record)) {
        tuner->kernel[hand->kernel].state = KERNEL_READY;
    } else {
        write_down(crew, record, hand->kernel, &tuner->cell[hand->cell], 0);
        tuner_drop(tuner, hand->kernel);
        tuner->failed++;
    }
}

/* Handles a worker that died or has to be killed. */
static void take_loss(struct crew *crew, struct hand *hand, bool hangs) {
    struct text why = {0};
    bool idle = !hand->busy, greeted = hand->greeted;
    if (hangs)
        text_print(&why, "took longer than %.0f s", crew->tuner->options.timeout);
    worker_stop(&hand->worker, hangs ? NULL : &why);
    if (!greeted)
        stop(crew, ATT_LAUNCH_FAILED, "a worker died or hung before it could begin");
    else if (!idle)
        write_failure(crew, hand, !hand->measures ? "compile" : hangs ? "hang" : "crash", text_string(&why));
    text_free(&why);
    replace(crew, hand);
}

static void wait_for_replies(struct crew *crew) {
    struct pollfd wait[HANDS];
    struct reply reply;
    for (int i = 0; i < crew->hands; i++)
        wait[i] = (struct pollfd){.fd = crew->hand[i].worker.channel, .events = POLLIN};
    if (poll(wait, (nfds_t)crew->hands, BUDGET_MS) < 0 && errno != EINTR)
        return;
    for (int i = 0; i < crew->hands && !crew->stop; i++) {
        struct hand *hand = &crew->hand[i];
        if (wait[i].revents && worker_receive(hand->worker.channel, &reply, sizeof reply))
            take_reply(crew, hand, &reply);
        else if (wait[i].revents)
            take_loss(crew, hand, false);
        else if (hand->busy && clock_seconds() > hand->until)
            take_loss(crew, hand, true);
    }
}

/* --- the loop ----------------------------------------------------------------------------------------------------- */

static bool recall(struct crew *crew) {
    struct results results = {.warm = crew->tuner->options.warm};
    struct text error = {0};
    bool read = journal_read(crew->journal, results_add, &results, NULL, &error);
    if (!read)
        stop(crew, ATT_IO, text_string(&error));
    else if (results.failed)
        stop(crew, ATT_OUT_OF_MEMORY, "out of memory");
    else
        tuner_recall(crew->tuner, &results);
    results_free(&results);
    text_free(&error);
    return !crew->stop;
}

/* Skips contests that are already finished in the journal: they cost nothing. */
static void skip_finished(struct tuner *tuner) {
    for (int i = 0; i < tuner->cells; i++) {
        struct tuner_cell *cell = &tuner->cell[i];
        int entrant;
        if (contest_next(&cell->contest, &entrant) == CONTEST_OVER)
            cell->begun = cell->done = true;
    }
}

static bool all_done(const struct tuner *tuner) {
    for (int i = 0; i < tuner->cells; i++)
        if (!tuner->cell[i].done)
            return false;
    return true;
}

static void give_orders(struct crew *crew) {
    int measuring = NONE;
    for (int i = 0; i < crew->hands && !crew->stop; i++) {
        struct hand *hand = &crew->hand[i];
        if (!hand->busy && hand->measures)
            order_measure(crew, hand);
        else if (!hand->busy)
            order_compile(crew, hand);
        if (hand->measures && hand->cell != NONE)
            measuring = hand->cell;
    }
    if (crew->tuner->options.progress)
        crew->tuner->options.progress(crew->tuner->options.context, crew->tuner, measuring);
}

static enum tuner_end how_it_ended(const struct tuner *tuner) {
    enum tuner_end end = TUNER_DONE;
    for (int i = 0; i < tuner->cells; i++) {
        const struct tuner_cell *cell = &tuner->cell[i];
        struct contest contest = cell->contest;
        int entrant, left = 0;
        contest.closed = false;
        left = contest_next(&contest, &entrant) != CONTEST_OVER;
        if (left && !has_measurement(cell))
            return TUNER_TOO_SHORT;
        if (left)
            end = TUNER_OUT_OF_TIME;
    }
    return end;
}

bool tuner_connect(struct tuner *tuner, enum att_status *status, struct text *error) {
    *status = ATT_OUT_OF_MEMORY;
    struct crew *crew = tuner->crew = calloc(1, sizeof *crew);
    if (!crew) {
        text_print(error, "out of memory");
        return false;
    }
    *crew = (struct crew){.tuner = tuner, .error = error};
    bool good = open_devices(crew);
    *status = crew->status;
    return good;
}

void tuner_disconnect(struct tuner *tuner) {
    if (tuner->crew)
        stop_all(tuner->crew);
    free(tuner->crew);
    tuner->crew = NULL;
}

enum tuner_end tuner_run(struct tuner *tuner, struct journal *journal, enum att_status *status, struct text *error) {
    struct crew *crew = tuner->crew;
    crew->journal = journal;
    crew->error = error;
    tuner->start = clock_seconds();
    tuner->end = tuner->start + tuner->options.budget;
    if (recall(crew))
        skip_finished(tuner);
    bool go_on = !crew->stop && !all_done(tuner) && open_compilers(crew);
    while (go_on && !crew->stop && !all_done(tuner)) {
        if (tuner->options.interrupted && tuner->options.interrupted())
            break;
        give_orders(crew);
        if (!all_done(tuner))
            wait_for_replies(crew);
    }
    *status = crew->status;
    enum tuner_end end = crew->stop ? TUNER_FAILED : all_done(tuner) ? how_it_ended(tuner) : TUNER_INTERRUPTED;
    tuner_disconnect(tuner);
    return end;
}
