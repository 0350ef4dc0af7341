/* Doing it: one loop that hands orders to workers, waits for replies, and replaces workers that died or hang. */
#include "tuner.h"

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

static const double GREETING = 60;      /* seconds that a worker may take to open its device */
static const double FIRST_PASS = 0.02;  /* seconds of timing at most when a kernel is measured first */
static const double LONGEST_PASS = 0.5; /* and ever */
static const double COMPILING = 0.6;    /* part of a cell's time after which it goes on without what is not compiled */

struct hand { /* a worker and what it is at */
    struct worker worker;
    struct stand_options options;
    bool measures, greeted, busy;
    double since, until; /* of what it is at; then it counts as hanging */
    int kernel, cell, entrant;
};

struct run {
    struct tuner *tuner;
    struct journal *journal;
    struct hand hand[HANDS];
    int hands;
    int next_cell; /* whose kernels are compiled next */
    bool stop;     /* on a failure: */
    enum att_status status;
    struct text *error;
    char arch[16];
};

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void stop(struct run *run, enum att_status status, const char *why) {
    if (!run->stop)
        text_print(run->error, "%s", why);
    run->stop = true;
    run->status = status;
}

static struct text *problem_with(struct run *run) { return run->error; }

/* --- writing down ------------------------------------------------------------------------------------------------- */

static void copy(char *to, size_t size, const char *from) { snprintf(to, size, "%s", from); }

static void print_knob(struct text *text, const struct variant *variant, enum knob_id id) {
    int value = knob_get(&variant->knobs, id);
    text_print(text, "%s%s=", text->size ? " " : "", knob_table[id].name);
    if (knob_table[id].words)
        text_print(text, "%s", knob_word_name(id, value));
    else
        text_print(text, "%d", value);
}

static void print_schedule(const struct variant *variant, char *to, size_t size) {
    struct text text = {0};
    for (int id = 0; id < KNOB_COUNT; id++)
        if (knob_table[id].group == KNOB_GROUP_SCHEDULE && variant->used >> id & 1 &&
            knob_get(&variant->knobs, (enum knob_id)id) != AUTO)
            print_knob(&text, variant, (enum knob_id)id);
    copy(to, size, text_string(&text));
    text_free(&text);
}

/* Complete a record with what the worker does not know, and append it. */
static void write_down(struct run *run, struct record *record, int number, const struct tuner_cell *cell, int pass) {
    const struct tuner *tuner = run->tuner;
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
    if (!journal_append(run->journal, record, &error))
        stop(run, ATT_IO, text_string(&error));
    text_free(&error);
}

static void write_failure(struct run *run, const struct hand *hand, const char *status, const char *why) {
    struct tuner *tuner = run->tuner;
    struct record record;
    record_clear(&record);
    copy(record.status, sizeof record.status, status);
    copy(record.error, sizeof record.error, why);
    write_down(run, &record, hand->kernel, &tuner->cell[hand->cell], 0);
    tuner_drop(tuner, hand->kernel);
    tuner->failed++;
}

/* --- workers ------------------------------------------------------------------------------------------------------ */

static bool start(struct run *run, struct hand *hand) {
    hand->greeted = false;
    hand->busy = true;
    hand->since = now();
    hand->until = hand->since + GREETING;
    if (worker_start(&hand->worker, stand_body, &hand->options, problem_with(run)))
        return true;
    run->stop = true;
    run->status = ATT_INTERNAL;
    return false;
}

static struct hand *add_hand(struct run *run, bool measures, int ordinal) {
    struct hand *hand = &run->hand[run->hands];
    *hand = (struct hand){.options = {.session = run->tuner->options.session}, .measures = measures};
    hand->options.session.ordinal = ordinal;
    hand->options.compile_for = measures ? NULL : run->arch;
    run->hands++; /* before it starts, so that it is stopped in any case */
    return start(run, hand) ? hand : NULL;
}

/* Wait for its greeting. False: it has none to give; *reply then says why. */
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

/* The first GPU says where we are; others count when they are equal. */
static bool open_devices(struct run *run) {
    struct tuner *tuner = run->tuner;
    const struct tuner_options *options = &tuner->options;
    struct reply reply;
    struct hand *first = add_hand(run, true, options->session.ordinal);
    if (!first || !await_greeting(first, &reply)) {
        if (first)
            stop(run, reply.status, reply.record.error);
        return false;
    }
    tuner->setting = reply.record;
    copy(run->arch, sizeof run->arch, reply.record.arch);
    tuner->gpus = 1;
    for (int i = 1; !options->one_gpu && i < GPUS && i < tuner->cells; i++) {
        struct hand *next = add_hand(run, true, i);
        if (!next)
            return false;
        if (await_greeting(next, &reply) && strcmp(reply.record.device, tuner->setting.device) == 0) {
            tuner->gpus++;
            continue;
        }
        worker_stop(&next->worker, NULL);
        run->hands--;
        break;
    }
    return true;
}

static bool open_compilers(struct run *run) {
    struct tuner *tuner = run->tuner;
    int waiting = 0, jobs = tuner->options.jobs;
    for (int i = 0; i < tuner->kernels; i++)
        waiting += tuner->kernel[i].state == KERNEL_NEW;
    if (jobs <= 0)
        jobs = (int)sysconf(_SC_NPROCESSORS_ONLN) - tuner->gpus;
    jobs = jobs < 1 ? 1 : jobs > JOBS ? JOBS : jobs;
    for (int i = 0; i < jobs && i < waiting; i++)
        if (!add_hand(run, false, 0))
            return false;
    return true;
}

static void stop_all(struct run *run) {
    for (int i = 0; i < run->hands; i++)
        worker_stop(&run->hand[i].worker, NULL);
    run->hands = 0;
}

/* --- orders ------------------------------------------------------------------------------------------------------- */

static bool give(struct run *run, struct hand *hand, const struct order *order) {
    hand->busy = true;
    hand->since = now();
    hand->until = hand->since + run->tuner->options.timeout;
    worker_send(hand->worker.channel, order, sizeof *order); /* if it is gone, its silence says so */
    return true;
}

/* The next kernel that nobody has compiled, cell by cell. */
static bool order_compile(struct run *run, struct hand *hand) {
    struct tuner *tuner = run->tuner;
    for (; run->next_cell < tuner->cells; run->next_cell++) {
        const struct tuner_cell *cell = &tuner->cell[run->next_cell];
        for (int i = 0; !cell->done && i < cell->candidates; i++) {
            struct tuner_kernel *kernel = &tuner->kernel[cell->kernel[i]];
            if (kernel->state != KERNEL_NEW)
                continue;
            struct order order = {.variant = kernel->variant};
            kernel->state = KERNEL_COMPILING;
            hand->kernel = cell->kernel[i];
            hand->cell = run->next_cell;
            return give(run, hand, &order);
        }
    }
    return false;
}

static int cells_to_begin(const struct tuner *tuner) {
    int waiting = 0;
    for (int i = 0; i < tuner->cells; i++)
        waiting += !tuner->cell[i].begun;
    return waiting;
}

/* Take the next cell, with a fair share of the time that is left. */
static bool begin_cell(struct run *run, struct hand *hand) {
    struct tuner *tuner = run->tuner;
    int waiting = cells_to_begin(tuner), rounds = (waiting + tuner->gpus - 1) / tuner->gpus;
    hand->cell = NONE;
    for (int i = 0; i < tuner->cells; i++) {
        struct tuner_cell *cell = &tuner->cell[i];
        if (cell->begun)
            continue;
        cell->begun = true;
        cell->start = now();
        cell->end = cell->start + (tuner->end - cell->start) / rounds;
        hand->cell = i;
        return true;
    }
    return false;
}

static void mark_ready(const struct tuner *tuner, struct tuner_cell *cell) {
    for (int i = 0; i < cell->candidates; i++)
        cell->race.entrant[i].ready = tuner->kernel[cell->kernel[i]].state == KERNEL_READY;
}

static bool has_measurement(const struct tuner_cell *cell) {
    for (int i = 0; i < cell->candidates; i++)
        if (cell->race.entrant[i].passes > 0 && !cell->race.entrant[i].out)
            return true;
    return false;
}

/* What the cell needs next. False: nothing now. */
static bool order_measure(struct run *run, struct hand *hand) {
    struct tuner *tuner = run->tuner;
    while (hand->cell != NONE || begin_cell(run, hand)) {
        struct tuner_cell *cell = &tuner->cell[hand->cell];
        double time = now();
        mark_ready(tuner, cell);
        if (time > cell->start + COMPILING * (cell->end - cell->start) && has_measurement(cell))
            cell->race.closed = true;
        enum race_state state = race_next(&cell->race, &hand->entrant);
        if (state == RACE_WAIT && time < cell->end)
            return false;
        bool late = time >= cell->end && (has_measurement(cell) || time >= tuner->end);
        if (state == RACE_OVER || late) {
            cell->done = true;
            hand->cell = NONE;
            continue;
        }
        if (state == RACE_WAIT)
            return false;
        int passes = cell->race.entrant[hand->entrant].passes, left = race_left(&cell->race);
        double share = (cell->end - time) / (left > 0 ? left : 1);
        hand->kernel = cell->kernel[hand->entrant];
        struct order order = {.variant = tuner->kernel[hand->kernel].variant,
                              .shape = cell->shape,
                              .seconds = fmin(share, passes ? LONGEST_PASS : FIRST_PASS)};
        return give(run, hand, &order);
    }
    return false;
}

/* --- replies ------------------------------------------------------------------------------------------------------ */

/* Some failures are of no kernel: then there is no point in going on. */
static bool is_fatal(const struct record *record) {
    return strcmp(record->status, "session") == 0 || strcmp(record->status, "stage") == 0 ||
           strcmp(record->status, "compiler") == 0;
}

static void take_measurement(struct run *run, struct hand *hand, struct record *record) {
    struct tuner *tuner = run->tuner;
    struct tuner_cell *cell = &tuner->cell[hand->cell];
    struct entrant *entrant = &cell->race.entrant[hand->entrant];
    write_down(run, record, hand->kernel, cell, entrant->passes);
    if (record_ok(record)) {
        race_note(&cell->race, hand->entrant, tuner->options.warm ? record->warm_median : record->cold_median);
        tuner->measured++;
        return;
    }
    tuner->failed++;
    entrant->out = true;
    if (strcmp(record->status, "refused") != 0)
        tuner_drop(tuner, hand->kernel);
}

static void take_reply(struct run *run, struct hand *hand, struct reply *reply) {
    struct tuner *tuner = run->tuner;
    struct record *record = &reply->record;
    hand->busy = false;
    if (is_fatal(record)) {
        stop(run, reply->status, record->error);
    } else if (!hand->greeted) {
        hand->greeted = true;
    } else if (hand->measures) {
        take_measurement(run, hand, record);
    } else if (record_ok(record)) {
        tuner->kernel[hand->kernel].state = KERNEL_READY;
    } else {
        write_down(run, record, hand->kernel, &tuner->cell[hand->cell], 0);
        tuner_drop(tuner, hand->kernel);
        tuner->failed++;
    }
}

/* It died, or had to be ended. The next order gets a new one. */
static void take_loss(struct run *run, struct hand *hand, bool hangs) {
    struct text why = {0};
    bool idle = !hand->busy, greeted = hand->greeted;
    if (hangs)
        text_print(&why, "took longer than %.0f s", run->tuner->options.timeout);
    worker_stop(&hand->worker, hangs ? NULL : &why);
    if (!greeted)
        stop(run, ATT_LAUNCH_FAILED, "a worker died or hung before it could begin");
    else if (!idle)
        write_failure(run, hand, !hand->measures ? "compile" : hangs ? "hang" : "crash", text_string(&why));
    text_free(&why);
    if (!run->stop)
        start(run, hand);
}

static void wait_for_replies(struct run *run) {
    struct pollfd wait[HANDS];
    struct reply reply;
    for (int i = 0; i < run->hands; i++)
        wait[i] = (struct pollfd){.fd = run->hand[i].worker.channel, .events = POLLIN};
    if (poll(wait, (nfds_t)run->hands, BUDGET_MS) < 0 && errno != EINTR)
        return;
    for (int i = 0; i < run->hands && !run->stop; i++) {
        struct hand *hand = &run->hand[i];
        if (wait[i].revents && worker_receive(hand->worker.channel, &reply, sizeof reply))
            take_reply(run, hand, &reply);
        else if (wait[i].revents)
            take_loss(run, hand, false);
        else if (hand->busy && now() > hand->until)
            take_loss(run, hand, true);
    }
}

/* --- the loop ----------------------------------------------------------------------------------------------------- */

static bool recall(struct run *run) {
    struct results results = {.warm = run->tuner->options.warm};
    struct text error = {0};
    bool read = journal_read(run->journal, results_add, &results, NULL, &error);
    if (!read)
        stop(run, ATT_IO, text_string(&error));
    else if (results.failed)
        stop(run, ATT_OUT_OF_MEMORY, "out of memory");
    else
        tuner_recall(run->tuner, &results);
    results_free(&results);
    text_free(&error);
    return !run->stop;
}

/* A race that the journal has finished already costs nothing. */
static void skip_finished(struct tuner *tuner) {
    for (int i = 0; i < tuner->cells; i++) {
        struct tuner_cell *cell = &tuner->cell[i];
        int entrant;
        if (race_next(&cell->race, &entrant) == RACE_OVER)
            cell->begun = cell->done = true;
    }
}

static bool all_done(const struct tuner *tuner) {
    for (int i = 0; i < tuner->cells; i++)
        if (!tuner->cell[i].done)
            return false;
    return true;
}

static void give_orders(struct run *run) {
    int measuring = NONE;
    for (int i = 0; i < run->hands && !run->stop; i++) {
        struct hand *hand = &run->hand[i];
        if (!hand->busy && hand->measures)
            order_measure(run, hand);
        else if (!hand->busy)
            order_compile(run, hand);
        if (hand->measures && hand->cell != NONE)
            measuring = hand->cell;
    }
    if (run->tuner->options.progress)
        run->tuner->options.progress(run->tuner->options.context, run->tuner, measuring);
}

static enum tuner_end how_it_ended(const struct tuner *tuner) {
    enum tuner_end end = TUNER_DONE;
    for (int i = 0; i < tuner->cells; i++) {
        const struct tuner_cell *cell = &tuner->cell[i];
        struct race race = cell->race;
        int entrant, left = 0;
        race.closed = false;
        left = race_next(&race, &entrant) != RACE_OVER;
        if (left && !has_measurement(cell))
            return TUNER_TOO_SHORT;
        if (left)
            end = TUNER_OUT_OF_TIME;
    }
    return end;
}

enum tuner_end tuner_run(struct tuner *tuner, struct journal *journal, enum att_status *status, struct text *error) {
    struct run *run = calloc(1, sizeof *run);
    enum tuner_end end = TUNER_FAILED;
    *status = ATT_OUT_OF_MEMORY;
    if (!run) {
        text_print(error, "out of memory");
        return end;
    }
    *run = (struct run){.tuner = tuner, .journal = journal, .error = error, .status = ATT_OK};
    tuner->start = now();
    tuner->end = tuner->start + tuner->options.budget;
    if (open_devices(run) && recall(run)) {
        for (int i = 0; i < run->hands; i++)
            run->hand[i].cell = NONE;
        skip_finished(tuner);
        bool go_on = !all_done(tuner) && open_compilers(run);
        while (go_on && !run->stop && !all_done(tuner)) {
            if (tuner->options.interrupted && tuner->options.interrupted())
                break;
            give_orders(run);
            if (!all_done(tuner))
                wait_for_replies(run);
        }
        end = run->stop ? TUNER_FAILED : all_done(tuner) ? how_it_ended(tuner) : TUNER_INTERRUPTED;
    }
    stop_all(run);
    *status = run->status;
    free(run);
    return end;
}
