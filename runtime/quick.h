/* quick: a first answer while the best kernel compiles (att_options.quick_first). Until then, a kernel that compiles in
   a tenth of the time serves the problem. A thread of the session compiles the best one and replaces the quick one by
   it, so that the next att_find of the same texts returns it. Kernels themselves never change. */
#ifndef ATTILE_QUICK_H
#define ATTILE_QUICK_H

#include "text.h"

#include <pthread.h>

struct att_session;
struct quick_job;

/* Part of a session, guarded by its lock except for `wanted`. */
struct quick {
    bool wanted;            /* never changes */
    bool started, running;  /* there is a thread to join; it still takes jobs */
    bool closing;           /* it takes no more jobs */
    pthread_t thread;       /* if started */
    struct quick_job *jobs; /* the first is being worked on; owned */
};

/* The schedule that compiles fast for attention_forward, and supports every data type, head dimension, layout, mask and
   score. */
#define QUICK_SCHEDULE "algorithm=flash"

/* Compiles the best kernel for this problem, and remembers it under the text `asked`. */
typedef void quick_work(struct att_session *session, const char *problem, const struct text *asked);

/* Lets the session's thread do this work. Does nothing if the same text is already waiting. False: there is no memory
   or no thread. */
bool quick_start(struct att_session *session, quick_work *work, const char *problem, const struct text *asked);

/* Waits for the compile in progress, and drops the others. */
void quick_close(struct att_session *session);

#endif
