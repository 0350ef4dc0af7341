/* quick: a first answer while the best kernel compiles (att_options.quick_first). A kernel that compiles in a tenth of the time
   answers until then; a thread of the session compiles the best one and puts it in the quick one's place, so that the next
   att_find of the same texts returns it. Kernels themselves never change. */
#ifndef ATTILE_QUICK_H
#define ATTILE_QUICK_H

#include "text.h"

#include <pthread.h>

struct att_session;
struct quick_job;

/* Part of a session, guarded by its lock but for `wanted`. */
struct quick {
    bool wanted;            /* never changes */
    bool started, running;  /* there is a thread to be joined; it still takes jobs */
    bool closing;           /* it takes no more */
    pthread_t thread;       /* if started */
    struct quick_job *jobs; /* the first is being worked on; owned */
};

/* The schedule that compiles fast for attention_forward, and takes every data type, head dimension, layout, mask and score. */
#define QUICK_SCHEDULE "algorithm=flash"

/* Compile the best kernel for this problem, and remember it under the text `asked`. */
typedef void quick_work(struct att_session *session, const char *problem, const struct text *asked);

/* Let the session's thread do this work. Nothing to do where the same text is waiting already. False: there is no memory or no
   thread. */
bool quick_start(struct att_session *session, quick_work *work, const char *problem, const struct text *asked);

/* Wait for the compile that is under way, and drop the others. */
void quick_close(struct att_session *session);

#endif
