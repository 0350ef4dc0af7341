/* worker: a process of our own that handles one order at a time, so that what it runs may hang or crash. Messages are
   plain structs: both ends are the same program. */
#ifndef ATTILE_WORKER_H
#define ATTILE_WORKER_H

#include "text.h"

#include <sys/types.h>

struct worker {
    pid_t process; /* 0 = none */
    int channel;   /* -1 = none */
};

/* Runs in the child, which ends when this returns; `channel` is its end. */
typedef void worker_body(void *context, int channel);

/* Forks. The child dies with the parent, gets no Ctrl-C from the terminal and writes nothing to our standard output. */
bool worker_start(struct worker *worker, worker_body *body, void *context, struct text *error);

/* Sends one whole message. False when the other end is gone. */
bool worker_send(int channel, const void *message, size_t size);

/* Waits for one message of exactly `size` bytes; false when the other end is gone. */
bool worker_receive(int channel, void *message, size_t size);

/* Ends the worker. If it had ended by itself, says how: "died of signal 11 (Segmentation fault)", "ended with status
   1". */
void worker_stop(struct worker *worker, struct text *how);

#endif
