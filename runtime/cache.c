/* cache: a key -> its entry, from disk, or else built once. The steps of one cache_get:

   join      another thread works on this key: wait and copy its result
   look      read the file; if it is whole, ours and matches the key: done
   lock      wait for another process that may be building it; look again; set a damaged file aside
   build     the only step that can fail
   publish   best effort, then release the lock

   The mutex guards the list of flights and their fields, and is never held during file access or a build. */
#include "cache_disk.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A key that one thread works on; the others wait. The last one to leave frees it. */
struct flight {
    struct flight *next;
    const struct cache_key *key; /* borrowed from the leader until done */
    int waiting;                 /* threads */
    bool done;
    struct cache_entry entry; /* for the waiting threads; empty after a failure */
    struct failure failure;
};

struct cache {
    struct cache_disk disk;
    pid_t process;
    pthread_mutex_t mutex;
    pthread_cond_t landed; /* some flight is done */
    struct flight *flights;
};

struct cache *cache_open(const struct cache_options *options) {
    struct cache *cache = calloc(1, sizeof *cache);
    if (!cache)
        return NULL;
    if (pthread_mutex_init(&cache->mutex, NULL) != 0) {
        free(cache);
        return NULL;
    }
    if (pthread_cond_init(&cache->landed, NULL) != 0) {
        pthread_mutex_destroy(&cache->mutex);
        free(cache);
        return NULL;
    }
    cache->process = getpid();
    cache_disk_open(&cache->disk, options);
    cache_sweep(&cache->disk);
    return cache;
}

void cache_close(struct cache *cache) {
    if (!cache)
        return;
    cache_disk_close(&cache->disk);
    if (cache->process == getpid()) { /* in a forked child, threads that it lacks may hold them for ever */
        pthread_cond_destroy(&cache->landed);
        pthread_mutex_destroy(&cache->mutex);
    }
    free(cache);
}

const char *cache_dir(const struct cache *cache) { return cache->disk.path; }

struct cache_disk *cache_disk_of(struct cache *cache) {
    return &cache->disk;
}

static bool copy_bytes(void **to, const void *from, size_t size) {
    *to = malloc(size + 1); /* never malloc(0), so that null means failure */
    if (*to && size)
        memcpy(*to, from, size);
    return *to;
}

static bool copy_entry(struct cache_entry *to, const struct cache_entry *from) {
    *to = (struct cache_entry){.payload_size = from->payload_size, .meta_size = from->meta_size};
    if (copy_bytes(&to->payload, from->payload, from->payload_size) &&
        copy_bytes(&to->meta, from->meta, from->meta_size))
        return true;
    cache_entry_free(to);
    return false;
}

static enum att_status no_memory(struct failure *failure) {
    return failure_set(failure, ATT_OUT_OF_MEMORY, "Out of memory while a kernel was fetched from the cache.");
}

/* Reads the key's file. False = the caller has to build. Moves the payload to the front of the file's own buffer: a
   second buffer would cost more than all the rest of a hit. */
static bool look(struct cache_disk *disk, const struct cache_key *key, struct cache_entry *entry, const char **damage) {
    struct cache_file file;
    bool hit = cache_file_read(disk, key->digest, key, &file) == CACHE_HIT;
    const struct cache_parts *parts = &file.parts;
    *damage = file.damage;
    if (!hit || !copy_bytes(&entry->meta, parts->meta, parts->meta_size)) {
        free(file.bytes);
        return false;
    }
    entry->payload = memmove(file.bytes, parts->payload, parts->payload_size);
    entry->payload_size = parts->payload_size;
    entry->meta_size = parts->meta_size;
    return true;
}

bool cache_look(struct cache *cache, const struct cache_key *key, struct cache_entry *entry) {
    const char *damage;
    *entry = (struct cache_entry){0};
    return cache->process == getpid() && look(&cache->disk, key, entry, &damage);
}

/* What the leader does. */
static enum att_status fetch(struct cache_disk *disk, const struct cache_key *key, cache_build *build, void *context,
                             struct cache_entry *entry, int *hit, struct failure *failure) {
    const char *damage;
    *hit = 1;
    if (look(disk, key, entry, &damage))
        return ATT_OK;
    int lock = cache_lock(disk, key->digest);
    if (look(disk, key, entry, &damage)) {
        cache_unlock(lock);
        return ATT_OK;
    }
    if (damage)
        cache_file_quarantine(disk, key->digest, damage);
    *hit = 0;
    enum att_status status = build(context, entry, failure);
    if (status == ATT_OK)
        cache_file_publish(disk, key, entry);
    else
        cache_entry_free(entry);
    cache_unlock(lock);
    cache_keep_limit(disk);
    return status;
}

static struct flight *find(struct cache *cache, const struct cache_key *key) {
    struct flight *flight = cache->flights;
    while (flight && !cache_key_same(flight->key, key->preimage.bytes, key->preimage.size))
        flight = flight->next;
    return flight;
}

static void free_flight(struct flight *flight) {
    cache_entry_free(&flight->entry);
    failure_clear(&flight->failure);
    free(flight);
}

/* Waits for a flight and copies its result. The mutex is held. */
static enum att_status join(struct cache *cache, struct flight *flight, struct cache_entry *entry,
                            struct failure *failure) {
    flight->waiting++;
    while (!flight->done)
        pthread_cond_wait(&cache->landed, &cache->mutex);
    enum att_status status = flight->failure.status;
    if (status != ATT_OK)
        failure_set(failure, status, "%s", text_string(&flight->failure.text));
    else if (!copy_entry(entry, &flight->entry))
        status = no_memory(failure);
    if (--flight->waiting == 0)
        free_flight(flight);
    return status;
}

/* Takes a flight off the list and gives copies of its result to the waiting threads. The mutex is held. */
static void land(struct cache *cache, struct flight *flight, const struct cache_entry *entry, enum att_status status,
                 const struct failure *failure) {
    struct flight **link = &cache->flights;
    while (*link != flight)
        link = &(*link)->next;
    *link = flight->next;
    flight->done = true;
    if (flight->waiting == 0) {
        free_flight(flight);
        return;
    }
    if (status != ATT_OK)
        failure_set(&flight->failure, status, "%s", text_string(&failure->text));
    else if (!copy_entry(&flight->entry, entry))
        no_memory(&flight->failure);
    pthread_cond_broadcast(&cache->landed);
}

enum att_status cache_get(struct cache *cache, const struct cache_key *key, cache_build *build, void *context,
                          struct cache_entry *entry, int *hit, struct failure *failure) {
    int ignored;
    hit = hit ? hit : &ignored;
    *hit = 1;
    *entry = (struct cache_entry){0};
    if (cache->process != getpid())
        return failure_set(failure, ATT_FORKED, "The process forked after the cache was opened; open another one.");
    if (!key->digest[0])
        return no_memory(failure);

    pthread_mutex_lock(&cache->mutex);
    struct flight *flight = find(cache, key);
    enum att_status status = flight ? join(cache, flight, entry, failure) : ATT_OK;
    bool joined = flight;
    if (!joined && (flight = calloc(1, sizeof *flight))) {
        flight->key = key;
        flight->next = cache->flights;
        cache->flights = flight;
    }
    pthread_mutex_unlock(&cache->mutex);
    if (joined)
        return status;
    if (!flight)
        return no_memory(failure);

    status = fetch(&cache->disk, key, build, context, entry, hit, failure);
    pthread_mutex_lock(&cache->mutex);
    land(cache, flight, entry, status, failure);
    pthread_mutex_unlock(&cache->mutex);
    return status;
}

void cache_reject(struct cache *cache, const struct cache_key *key) {
    if (cache->disk.entries >= 0 && key->digest[0])
        cache_file_quarantine(&cache->disk, key->digest, "the device refused it");
}
