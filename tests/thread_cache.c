/* 64 threads ask for 200 keys, each in its own order, while another thread trims and damages what is on disk. They use
   one cache, two caches on one directory (which then meet only through the file locks), or a cache without a directory.
   Every answer must be right, and without the disturbance there must be no more builds than keys. */
#include "helper_cache.h"

#include <pthread.h>
#include <stdio.h>

enum { THREADS = 64, KEYS = 200, SIZE = 500 };

struct thread {
    struct cache *cache;
    int seed;
    atomic_int *calls, *wrong;
};

static void *ask_all(void *context) {
    const struct thread *thread = context;
    for (int i = 0; i < KEYS; i++) {
        int number = (i * 77 + thread->seed * 13) % KEYS; /* 77 and KEYS have no common factor: each number once */
        struct sample_build sample = {.number = number, .size = SIZE, .calls = thread->calls};
        enum sample_result result = sample_get(thread->cache, &sample);
        if (result != SAMPLE_BUILT && result != SAMPLE_HIT)
            atomic_fetch_add(thread->wrong, 1);
    }
    return NULL;
}

struct storm {
    const char *name;
    int caches; /* threads take turns among them */
    bool memory_only, disturbed;
    int calls_least, calls_most;
};

static void disturb(struct cache *cache, const char *directory) {
    for (int i = 0; i < 20; i++) {
        struct failure failure = {0};
        uint64_t removed;
        struct cache_key key;
        sample_key(i, &key);
        scratch_damage(directory, i);
        cache_trim(cache, i % 4 ? 50000 : 0, 1, 0, &removed, &failure);
        cache_reject(cache, &key);
        cache_key_free(&key);
        failure_clear(&failure);
    }
}

static void ignore_log(void *count, enum att_log_level level, const char *message) {
    (void)level, (void)message;
    atomic_fetch_add((atomic_int *)count, 1);
}

static int run(const struct storm *storm) {
    const char *directory = scratch_make_fast();
    atomic_int calls = 0, wrong = 0, messages = 0;
    struct cache *caches[2];
    for (int i = 0; i < storm->caches; i++)
        caches[i] = cache_open(&(struct cache_options){
            .dir = directory, .disabled = storm->memory_only, .log = ignore_log, .log_context = &messages});
    struct thread threads[THREADS];
    pthread_t ids[THREADS];
    int started = 0;
    for (; started < THREADS; started++) {
        threads[started] = (struct thread){caches[started % storm->caches], started, &calls, &wrong};
        if (pthread_create(&ids[started], NULL, ask_all, &threads[started]) != 0)
            break;
    }
    if (storm->disturbed)
        disturb(caches[0], directory);
    for (int i = 0; i < started; i++)
        pthread_join(ids[i], NULL);
    for (int i = 0; i < storm->caches; i++)
        cache_close(caches[i]);
    scratch_remove(directory);
    bool right = started == THREADS && wrong == 0 && calls >= storm->calls_least && calls <= storm->calls_most;
    printf("%s %s: %d threads x %d keys, %d builds, %d wrong\n", right ? "ok  " : "FAIL", storm->name, started, KEYS,
           calls, wrong);
    return right ? 0 : 1;
}

int main(void) {
    static const struct storm storms[] = {
        {"one cache", 1, false, false, KEYS, KEYS},
        {"two caches", 2, false, false, KEYS, KEYS},
        {"memory only", 1, true, false, KEYS, THREADS * KEYS},
        {"disturbed", 2, false, true, KEYS, THREADS * KEYS},
    };
    int failed = 0;
    for (size_t i = 0; i < sizeof storms / sizeof *storms; i++)
        failed |= run(&storms[i]);
    return failed;
}
