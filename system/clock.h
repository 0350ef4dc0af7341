/* clock: seconds of a monotonic clock, for measuring durations. */
#ifndef ATTILE_CLOCK_H
#define ATTILE_CLOCK_H

#include <time.h>

static inline double clock_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

#endif
