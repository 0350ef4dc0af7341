/* cache: binaries on disk, one file each. A file that cannot be proven whole and ours is never used: it is moved to
   quarantine and rebuilt. Everything here is optional by design: with no usable directory all reads miss and all
   writes are dropped, with one warning. Safe between threads and processes; locks only avoid double work.

   Entry file: magic, format, sizes, key digest, key preimage, metadata, payload, XXH3-128 of all before it. */
#ifndef ATTILE_CACHE_H
#define ATTILE_CACHE_H

#include "failure.h"

#include <stdint.h>

struct cache;

struct cache_options {
    const char *dir;    /* null = find one, see attile.h */
    uint64_t limit;     /* bytes; 0 = 1 GiB */
    int disabled;       /* 1 = memory only */
    int lock_wait_ms;   /* longest wait for another process's compile; 0 = 120,000 */
    void (*log)(void *context, enum att_log_level level, const char *message);
    void *log_context;
};

/* A key: "name: value" fields. Digest = SHA-256 over the length-prefixed fields in order, so that no two lists of
   fields read alike. The preimage is stored in the entry and compared. */
struct cache_key {
    struct text preimage;
    char digest[65]; /* lower-case hex, set by cache_key_finish */
};
void cache_key_add(struct cache_key *key, const char *name, const void *value, size_t size);
void cache_key_finish(struct cache_key *key);
void cache_key_free(struct cache_key *key);

/* What is stored beside the binary: small, so that `attile cache list` can show it. Opaque to the cache. */
struct cache_entry {
    void *payload; /* owned */
    size_t payload_size;
    void *meta; /* owned */
    size_t meta_size;
};
void cache_entry_free(struct cache_entry *entry);

/* Never fails but for memory (null): a cache without a usable directory is a cache that always misses. */
struct cache *cache_open(const struct cache_options *options);
void cache_close(struct cache *cache);             /* accepts null */
const char *cache_dir(const struct cache *cache);  /* null = memory only */

/* Makes what the key stands for. Sets payload and meta with malloc'ed memory. */
typedef enum att_status cache_build(void *context, struct cache_entry *entry, struct failure *failure);

/* Return the entry of a key: from disk, else by calling build once, even when many threads and processes ask at the
   same time (single flight). *hit says which (may be null). Publishing is best effort: the bytes just built are
   returned, never read back. */
enum att_status cache_get(struct cache *cache, const struct cache_key *key, cache_build *build, void *context,
                          struct cache_entry *entry, int *hit, struct failure *failure);

/* Move an entry that the device refused to quarantine, so that the next cache_get builds it anew. */
void cache_reject(struct cache *cache, const struct cache_key *key);

/* --- for `attile cache` ------------------------------------------------------------------------------------------ */

struct cache_item {
    char digest[65];
    uint64_t size;      /* bytes of the file */
    int64_t last_used;  /* seconds since 1970 */
    struct text preimage;
    void *meta;         /* borrowed during the callback */
    size_t meta_size;
    const char *damage; /* null = whole; else what is wrong with it */
};
/* Visit every entry (verified in full when `verify`), in digest order; stop when visit returns nonzero. */
enum att_status cache_visit(struct cache *cache, int verify, int (*visit)(void *context, const struct cache_item *item),
                            void *context, struct failure *failure);

struct cache_stat {
    uint64_t entries, bytes, limit, quarantined, temporary;
};
enum att_status cache_stat(struct cache *cache, struct cache_stat *stat, struct failure *failure);

/* Remove least recently used entries until at most `bytes` remain (0 = all), left-over temporaries and, with
   `quarantine`, quarantined files. dry_run only counts. */
enum att_status cache_trim(struct cache *cache, uint64_t bytes, int quarantine, int dry_run, uint64_t *removed,
                           struct failure *failure);

/* Check one entry's bytes as cache_get would, without a disk: null = good, else what is wrong. For tests and fuzzing.
   On success the parts point into `bytes`. */
struct cache_parts {
    const char *digest, *preimage, *meta, *payload;
    size_t preimage_size, meta_size, payload_size;
};
const char *cache_entry_check(const void *bytes, size_t size, struct cache_parts *parts);

#endif
