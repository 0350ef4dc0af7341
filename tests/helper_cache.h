/* helper_cache: shared by the cache tests: directories that are removed automatically, keys and payloads that are a
   function of a number, and a stand-in compiler that counts its calls. */
#ifndef ATTILE_HELPER_CACHE_H
#define ATTILE_HELPER_CACHE_H

#include "cache.h"

#include <stdatomic.h>

enum {
    PROBE_SIZE = 200000
}; /* payload bytes that cache_probe asks for: large enough that malloc makes a system call */

/* Creates a directory on disk that every user may enter. The text is valid until the test ends. Null = creation
   failed. */
const char *scratch_make(void);
const char *scratch_make_fast(void);        /* in memory, if the system has such a place */
void scratch_remove(const char *directory); /* with its contents; does not follow links */
int scratch_count(const char *directory,
                  const char *part);                   /* names in a part of a cache directory; -1 = no such part */
int scratch_damage(const char *directory, int number); /* flips one bit in the middle of an entry; 0 = done */
const char *scratch_path(const char *directory, const char *part, const char *name); /* joined; one of eight buffers */

/* Key number n, its payload of `size` bytes and its metadata. */
void sample_key(int number, struct cache_key *key);
bool sample_entry(int number, size_t size, struct cache_entry *entry);
bool sample_equal(int number, size_t size, const struct cache_entry *entry);

/* Puts the correct checksum at the end of an entry whose bytes were changed. */
void sample_seal(void *bytes, size_t size);

/* The stand-in compiler. Zero fields do nothing. */
struct sample_build {
    int number;
    size_t size;
    atomic_int *calls; /* counts the calls */
    int count_file;    /* gets one byte per call; opened with O_APPEND, it counts across processes */
    int pause_us;      /* duration of a compile */
    bool fails;
};
enum att_status sample_build(void *sample, struct cache_entry *entry, struct failure *failure);

/* Calls cache_get for a sample and checks the result. */
enum sample_result { SAMPLE_BUILT, SAMPLE_HIT, SAMPLE_FAILED, SAMPLE_WRONG };
enum sample_result sample_get(struct cache *cache, struct sample_build *sample);

/* Collects log messages. */
struct sample_log {
    struct text text; /* one line per message */
    int count;
};
void sample_log(void *log, enum att_log_level level, const char *message);

#endif
