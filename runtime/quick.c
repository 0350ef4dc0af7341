#include "quick.h"
#include "session.h"

#include <stdlib.h>
#include <string.h>

struct quick_job {
    struct quick_job *next;
    quick_work *work;
    char *problem;
    struct text asked;
};

static void free_job(struct quick_job *job) {
    if (job) {
        free(job->problem);
        text_free(&job->asked);
    }
    free(job);
}

static struct quick_job *make_job(quick_work *work, const char *problem, const struct text *asked) {
    struct quick_job *job = calloc(1, sizeof *job);
    if (!job)
        return NULL;
    job->work = work;
    job->problem = strdup(problem);
    text_append(&job->asked, asked->bytes, asked->size);
    if (job->problem && !job->asked.failed)
        return job;
    free_job(job);
    return NULL;
}

static void *take_jobs(void *context) {
    att_session *session = context;
    struct quick *quick = &session->quick;
    pthread_mutex_lock(&session->lock);
    while (quick->jobs && !quick->closing) {
        struct quick_job *job = quick->jobs;
        pthread_mutex_unlock(&session->lock);
        job->work(session, job->problem, &job->asked);
        pthread_mutex_lock(&session->lock);
        quick->jobs = job->next;
        free_job(job);
    }
    quick->running = false;
    pthread_mutex_unlock(&session->lock);
    return NULL;
}

/* Call with the session's lock held. A thread that no longer runs takes no more locks, so it can be waited for. */
static bool start_thread(att_session *session) {
    struct quick *quick = &session->quick;
    if (quick->running)
        return true;
    if (quick->started)
        pthread_join(quick->thread, NULL);
    quick->started = quick->running = pthread_create(&quick->thread, NULL, take_jobs, session) == 0;
    return quick->started;
}

bool quick_start(att_session *session, quick_work *work, const char *problem, const struct text *asked) {
    struct quick_job *job = make_job(work, problem, asked), **end = &session->quick.jobs;
    if (!job)
        return false;
    pthread_mutex_lock(&session->lock);
    while (*end && ((*end)->asked.size != asked->size || memcmp((*end)->asked.bytes, asked->bytes, asked->size) != 0))
        end = &(*end)->next;
    bool known = *end, good = known;
    if (!known) {
        *end = job;
        good = start_thread(session);
        if (!good)
            *end = NULL;
    }
    pthread_mutex_unlock(&session->lock);
    if (known || !good)
        free_job(job);
    return good;
}

void quick_close(att_session *session) {
    struct quick *quick = &session->quick;
    pthread_mutex_lock(&session->lock);
    quick->closing = true;
    pthread_mutex_unlock(&session->lock);
    if (quick->started)
        pthread_join(quick->thread, NULL);
    for (struct quick_job *next, *job = quick->jobs; job; job = next) {
        next = job->next;
        free_job(job);
    }
}
