/* stand: what a worker of the tuner does: with an order in, one kernel is compiled, or checked and timed, and a record
   goes back. Runs in a process of its own, which a faulty kernel may take with it. */
#ifndef ATTILE_STAND_H
#define ATTILE_STAND_H

#include "attile.h"
#include "gen.h"
#include "record.h"

struct stand_options { /* borrowed by workers; they are forks, so the pointers hold there too */
    struct att_options session;
    const char *compile_for; /* null = measure; else compile for this architecture, "" on the host device */
};

struct order {
    struct variant variant;
    struct shape shape; /* to measure */
    double seconds;     /* to spend on timing */
};

struct reply {
    enum att_status status; /* what the library said; ATT_OK with a record that is not ok: the answer is wrong */
    struct record record;   /* what was measured, or why not */
};

/* The body of a worker (worker.h), with a struct stand_options as its context. First it replies with where it runs
   (device, arch, driver, compiler), or with why it cannot: then it ends. After that, one reply an order. After a fault
   of the device it ends by itself. Three statuses are not of a kernel and not for a file: "session", that it cannot run
   at all; "stage", that the tensors cannot be put up; "compiler", that there is none. */
void stand_body(void *options, int channel);

#endif
