/* cache: binaries on disk, one file each. A file that cannot be proven whole and ours is never used: it is moved to
   quarantine and rebuilt. The cache is optional by design: without a usable directory all reads miss and all writes are
   dropped, with one warning. Safe between threads and processes; locks only avoid duplicate work.

   Entry file: magic, format, sizes, key digest, key preimage, metadata, payload, XXH3-128 of all preceding bytes. */
#ifndef ATTILE_CACHE_H
#define ATTILE_CACHE_H

#include "failure.h"

#include <stdbool.h>
#include <stdint.h>

struct cache;

struct cache_options {
    const char *dir;  /* null = find one, see attile.h */
    uint64_t limit;   /* bytes; 0 = 1 GiB */
    int disabled;     /* 1 = memory only */
    int lock_wait_ms; /* longest wait for another process's compile; 0 = 120,000 */
    void (*log)(void *context, enum att_log_level level, const char *message);
    void *log_context;
};

enum { CACHE_DIGEST = 32 }; /* hexadecimal digits of a digest */

/* A key: named fields in order, each written "SIZE:name SIZE:value\n", so that different lists of fields give different
   texts. The whole text is the preimage. An entry keeps it, to be compared before use and to show which input changed.
   The digest is its XXH3-128 and only finds the file: keys are equal if their preimages are. Add everything that
   determines the binary and nothing else: no paths, host names or times. */
struct cache_key {
    struct text preimage;
    char digest[CACHE_DIGEST + 1]; /* lower-case hex, set by cache_key_finish; "" if memory ran out */
};
void cache_key_add(struct cache_key *key, const char *name, const void *value, size_t size);
void cache_key_finish(struct cache_key *key);
void cache_key_free(struct cache_key *key);
bool cache_key_same(const struct cache_key *key, const void *preimage, size_t size);
void cache_digest(const void *preimage, size_t size, char digest[CACHE_DIGEST + 1]);

/* Reads a preimage back, field by field. Start with *offset = 0. Returns false at the end or if it is malformed
   (*offset == size tells which). The field borrows from the preimage. */
struct cache_field {
    const char *name, *value;
    size_t name_size, value_size;
};
bool cache_key_field(const void *preimage, size_t size, size_t *offset, struct cache_field *field);

/* What an entry stores. meta is small, so that `attile cache list` can show it, and opaque to the cache. */
struct cache_entry {
    void *payload; /* owned */
    size_t payload_size;
    void *meta; /* owned */
    size_t meta_size;
};
void cache_entry_free(struct cache_entry *entry);

/* Fails only if memory runs out (null): a cache without a usable directory is a cache that always misses. */
struct cache *cache_open(const struct cache_options *options);
void cache_close(struct cache *cache);            /* accepts null; may be called in a forked child */
const char *cache_dir(const struct cache *cache); /* null = memory only */

/* Builds what the key stands for. Sets payload and meta to malloc'ed memory. */
typedef enum att_status cache_build(void *context, struct cache_entry *entry, struct failure *failure);

/* Returns the entry of a key: from disk, or else by calling build once, even if many threads and processes ask at the
   same time (single flight). *hit (may be null) is 0 if this call built it, 1 if it came from disk or from another
   thread's build. Publishing is best effort: the call returns the bytes just built and never reads them back. Fails
   only if build does (threads that waited for it get a copy of its failure), if memory runs out, or in a forked child
   (ATT_FORKED). build must not ask this cache for the same key. */
enum att_status cache_get(struct cache *cache, const struct cache_key *key, cache_build *build, void *context,
                          struct cache_entry *entry, int *hit, struct failure *failure);

/* Returns the entry of a key if it is on disk and whole. Builds nothing and does not wait for other processes or
   threads. */
bool cache_look(struct cache *cache, const struct cache_key *key, struct cache_entry *entry);

/* Moves to quarantine an entry that the device refused, so that the next cache_get builds it again. */
void cache_reject(struct cache *cache, const struct cache_key *key);

/* --- for `attile cache` ------------------------------------------------------------------------------------------ */

struct cache_item {
    char digest[CACHE_DIGEST + 1];
    uint64_t size;        /* bytes of the file */
    int64_t last_used;    /* seconds since 1970 */
    struct text preimage; /* borrowed during the callback, like meta */
    const void *meta;
    size_t meta_size;
    const char *damage; /* null = whole; otherwise what is wrong with it */
};
/* Visits every entry in digest order; stops when visit returns nonzero. Checks every byte before an entry is shown;
   with `verify` also recomputes the digest from the preimage. A damaged entry has no preimage and no meta. */
enum att_status cache_visit(struct cache *cache, int verify, int (*visit)(void *context, const struct cache_item *item),
                            void *context, struct failure *failure);

struct cache_stat {
    uint64_t entries, bytes, limit, quarantined, temporary;
};
enum att_status cache_stat(struct cache *cache, struct cache_stat *stat, struct failure *failure);

/* Removes least recently used entries until at most `bytes` remain (0 = all), temporaries at least ten minutes old and,
   with `quarantine`, quarantined files. *removed counts files; with dry_run it only counts. ATT_IO if something to be
   removed cannot be; everything else is removed. */
enum att_status cache_trim(struct cache *cache, uint64_t bytes, int quarantine, int dry_run, uint64_t *removed,
                           struct failure *failure);

/* --- the format, without a disk: for cache_*.c, tests and fuzzing ------------------------------------------------- */

/* Checks one entry's bytes as cache_get would: null = good, otherwise what is wrong. Verifies the checksum over all
   bytes first and parses nothing before it matches. On success the parts point into `bytes`. */
struct cache_parts {
    const char *digest, *preimage, *meta, *payload; /* digest: without a NUL */
    size_t preimage_size, meta_size, payload_size;
};
const char *cache_entry_check(const void *bytes, size_t size, struct cache_parts *parts);

/* Returns the bytes of an entry's file, malloc'ed; null if memory runs out. */
void *cache_entry_pack(const struct cache_key *key, const struct cache_entry *entry, size_t *size);

#endif
