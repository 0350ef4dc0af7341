#include "timing.h"
#include "clock.h"

#include <math.h>
#include <stdlib.h>

enum { LEAST = 3, MOST = 64, TOGETHER = 32 };

static const double LEAD_IN = 50e-3; /* maximum seconds of launches before the first sample */
static const double LEAD_RUN = 2e-3; /* ... of which the host waits for this much at a time */
static const double WARM_RUN = 1e-4; /* seconds of launches timed together: long beside the overhead of one launch */
static const double LONG = 2e-3;     /* seconds of a launch that averages out by itself: one sample is enough */

struct subject {
    att_session *session;
    att_kernel *kernel;
    const struct att_args *args;
    struct failure *failure;
};

static enum att_status launch(const struct subject *subject, int count) {
    for (int i = 0; i < count; i++)
        if (att_launch(subject->kernel, subject->args, NULL) != ATT_OK)
            return failure_set(subject->failure, ATT_LAUNCH_FAILED, "%s", att_message(subject->session));
    return ATT_OK;
}

enum lead {
    LEAD_NONE,
    LEAD_FLUSH,
    LEAD_LAUNCH
}; /* what precedes a sample: nothing, a cache flush, or a launch that is not timed */

/* Measures the seconds per launch of `count` launches. While the device executes the lead, the host gets ahead, so that
   the timed launches start without a gap. */
static enum att_status sample(const struct subject *subject, enum lead lead, int count, double *seconds) {
    const struct backend_type *type = subject->session->type;
    struct backend *backend = subject->session->backend;
    enum att_status status = lead == LEAD_LAUNCH ? launch(subject, 1) : ATT_OK;
    *seconds = 0;
    if (lead == LEAD_FLUSH && type->flush)
        status = type->flush(backend, NULL, subject->failure);
    if (status == ATT_OK)
        status = type->timer_start(backend, NULL, subject->failure);
    if (status == ATT_OK)
        status = launch(subject, count);
    if (status == ATT_OK)
        status = type->timer_stop(backend, NULL, seconds, subject->failure);
    *seconds /= count;
    return status;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct timing summary(double *time, int samples) {
    qsort(time, (size_t)samples, sizeof *time, compare);
    double median = samples % 2 ? time[samples / 2] : (time[samples / 2 - 1] + time[samples / 2]) / 2;
    return (struct timing){samples, median, time[0], time[samples * 3 / 4] - time[samples / 4]};
}

static enum att_status series(const struct subject *subject, enum lead lead, int count, double seconds,
                              struct timing *timing) {
    double time[MOST], end = clock_seconds() + seconds;
    int samples = 0, least = LEAST;
    while (samples < least || (samples < MOST && clock_seconds() < end)) {
        enum att_status status = sample(subject, lead, count, &time[samples++]);
        if (status != ATT_OK)
            return status;
        least = time[0] > LONG ? 1 : LEAST;
    }
    *timing = summary(time, samples);
    return ATT_OK;
}

/* A kernel is timed in the state that it creates itself: the power that the previous kernel drew sets the clocks of the
   first milliseconds, and a GPU that idles between launches reaches clocks that a fully loaded one never does. */
static enum att_status lead_in(const struct subject *subject, double seconds) {
    double time, end = clock_seconds() + seconds;
    enum att_status status = sample(subject, LEAD_NONE, 1, &time);
    const int together = time * MOST > LEAD_RUN ? 1 + (int)(LEAD_RUN / time) : MOST;
    while (status == ATT_OK && clock_seconds() < end)
        status = sample(subject, LEAD_NONE, together, &time);
    return status;
}

enum att_status timing_run(att_session *session, att_kernel *kernel, const struct att_args *args, double seconds,
                           struct timing *cold, struct timing *warm, struct failure *failure) {
    const struct subject subject = {session, kernel, args, failure};
    double before = fmin(LEAD_IN, seconds / 2);
    enum att_status status = lead_in(&subject, before);
    if (status == ATT_OK)
        status = series(&subject, LEAD_FLUSH, 1, (seconds - before) * 0.7, cold);
    if (status != ATT_OK)
        return status;
    int together = cold->median * TOGETHER > WARM_RUN ? 1 + (int)(WARM_RUN / cold->median) : TOGETHER;
    enum lead lead =
        cold->median > LONG ? LEAD_NONE : LEAD_LAUNCH; /* after the previous one, a long launch is as warm as it gets */
    return series(&subject, lead, together, (seconds - before) * 0.3, warm);
}
