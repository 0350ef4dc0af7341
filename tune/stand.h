/* stand: what a worker of the tuner does: for each order it compiles one kernel, or checks and times it, and sends back
   a record. Runs in its own process, which a faulty kernel may bring down. */
#ifndef ATTILE_STAND_H
#define ATTILE_STAND_H

#include "attile.h"
#include "gen.h"
#include "record.h"

struct stand_options { /* borrowed by workers; they are forks, so the pointers are valid there, too */
    struct att_options session;
    const char *compile_for; /* null = measure; else compile for this architecture, "" on the host device */
};

struct order {
    struct variant variant;
    struct shape shape; /* to measure */
    double seconds;     /* to spend on timing */
};

struct reply {
    enum att_status status; /* what the library returned; ATT_OK with a record that is not ok: the answer is wrong */
    struct record record;   /* the measurement, or why there is none */
};

/* The body of a worker (worker.h), with a struct stand_options as its context. First it replies with where it runs
   (device, arch, driver, compiler), or with why it cannot run, and then ends. After that it sends one reply per order.
   After a device fault it ends by itself. Three statuses do not belong to a kernel or into a file: "session" (it cannot
   run at all), "stage" (the tensors cannot be made) and "compiler" (there is none). */
void stand_body(void *options, int channel);

#endif
