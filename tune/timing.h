/* timing: how long a kernel takes with arguments that are already on the device, by the device's own timer. */
#ifndef ATTILE_TIMING_H
#define ATTILE_TIMING_H

#include "session.h"

struct timing { /* of one launch, in seconds; spread: interquartile range */
    int samples;
    double median, min, spread;
};

/* Cold: every launch alone, with none of our data in the caches. Warm: launches back to back on the same tensors. Takes
   about `seconds` in all. The first half, at most 50 ms, is not sampled, so that clocks and power are those of this
   kernel. Then there are at least three samples of each kind, or one where a launch takes milliseconds. */
enum att_status timing_run(att_session *session, att_kernel *kernel, const struct att_args *args, double seconds,
                           struct timing *cold, struct timing *warm, struct failure *failure);

#endif
