/* timing: how long a kernel takes on arguments that are on the device already, by the device's own timer. */
#ifndef ATTILE_TIMING_H
#define ATTILE_TIMING_H

#include "session.h"

struct timing { /* of one launch, in seconds; spread: between the quartiles */
    int samples;
    double median, min, spread;
};

/* Cold: every launch alone, nothing of ours in the caches. Warm: launches back to back on the same tensors. Goes on for
   about `seconds` in all: the first half, 50 ms at most, is not sampled, so that clocks and power are this kernel's own;
   then three samples of each at least; one, where a launch takes milliseconds. */
enum att_status timing_run(att_session *session, att_kernel *kernel, const struct att_args *args, double seconds,
                           struct timing *cold, struct timing *warm, struct failure *failure);

#endif
