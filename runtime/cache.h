/* cache: binaries on disk, one file each. A file that cannot be proven whole and ours is never used: it is moved to
   quarantine and rebuilt. Everything here is optional by design: with no usable directory all reads miss and all
   writes are dropped, with one warning. Safe between threads and processes; locks only avoid double work.

   Entry file: magic, format, sizes, key digest, key preimage, metadata, payload, XXH3-128 of all before it. */
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

/* A key: named fields in order, each written "SIZE:name SIZE:value\n", so that no two lists of fields read alike.
   The whole text is the preimage, which an entry keeps, to be compared before use and to say which input changed. The
   digest is its XXH3-128 and only finds the file: keys are the same when their preimages are. Add what decides the
   binary and nothing else: no paths, host names or times. */
struct cache_key {
    struct text preimage;
    char digest[CACHE_DIGEST + 1]; /* lower-case hex, set by cache_key_finish; "" if memory ran out */
};
void cache_key_add(struct cache_key *key, const char *name, const void *value, size_t size);
void cache_key_finish(struct cache_key *key);
void cache_key_free(struct cache_key *key);
bool cache_key_same(const struct cache_key *key, const void *preimage, size_t size);
void cache_digest(const void *preimage, size_t size, char digest[CACHE_DIGEST + 1]);

/* Read a preimage back, field by field: start with *offset = 0; false at the end or when it is malformed
   (*offset == size tells which). The field borrows from the preimage. */
struct cache_field {
    const char *name, *value;
    size_t name_size, value_size;
};
bool cache_key_field(const void *preimage, size_t size, size_t *offset, struct cache_field *field);

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
void cache_close(struct cache *cache);            /* accepts null; may be called in a forked child */
const char *cache_dir(const struct cache *cache); /* null = memory only */

/* Makes what the key stands for. Sets payload and meta with malloc'ed memory. */
typedef enum att_status cache_build(void *context, struct cache_entry *entry, struct failure *failure);

/* Return the entry of a key: from disk, else by calling build once, even when many threads and processes ask at the
   same time (single flight). *hit (may be null) is 0 when this call built it, 1 when it came from disk or from another
   thread's build. Publishing is best effort: the bytes just built are returned, never read back. Fails only when build
   does (threads that waited for it get a copy of its failure), when memory runs out, or in a forked child (ATT_FORKED).
   build must not ask this cache for the same key. */
enum att_status cache_get(struct cache *cache, const struct cache_key *key, cache_build *build, void *context,
                          struct cache_entry *entry, int *hit, struct failure *failure);

/* The entry of a key if it is on disk, whole. Builds nothing and waits for nobody. */
bool cache_look(struct cache *cache, const struct cache_key *key, struct cache_entry *entry);

/* Move an entry that the device refused to quarantine, so that the next cache_get builds it again. */
void cache_reject(struct cache *cache, const struct cache_key *key);

/* --- for `attile cache` ------------------------------------------------------------------------------------------ */

struct cache_item {
    char digest[CACHE_DIGEST + 1];
    uint64_t size;        /* bytes of the file */
    int64_t last_used;    /* seconds since 1970 */
    struct text preimage; /* borrowed during the callback, like meta */
    const void *meta;
    size_t meta_size;
    const char *damage; /* null = whole; else what is wrong with it */
};
/* Visit every entry in digest order; stop when visit returns nonzero. Every byte is checked before it is shown;
   `verify` also recomputes the digest from the preimage. A damaged entry has no preimage and no meta. */
enum att_status cache_visit(struct cache *cache, int verify, int (*visit)(void *context, const struct cache_item *item),
                            void *context, struct failure *failure);

struct cache_stat {
    uint64_t entries, bytes, limit, quarantined, temporary;
};
enum att_status cache_stat(struct cache *cache, struct cache_stat *stat, struct failure *failure);

/* Remove least recently used entries until at most `bytes` remain (0 = all), temporaries left over for ten minutes and,
   with `quarantine`, quarantined files. *removed counts files; dry_run only counts. ATT_IO when something that should
   go cannot be removed; the rest is. */
enum att_status cache_trim(struct cache *cache, uint64_t bytes, int quarantine, int dry_run, uint64_t *removed,
                           struct failure *failure);

/* --- the format, without a disk: for cache_*.c, tests and fuzzing ------------------------------------------------- */

/* Check one entry's bytes as cache_get would: null = good, else what is wrong. The checksum over all bytes comes first;
   nothing is parsed before it holds. On success the parts point into `bytes`. */
struct cache_parts {
    const char *digest, *preimage, *meta, *payload; /* digest: without a NUL */
    size_t preimage_size, meta_size, payload_size;
};
const char *cache_entry_check(const void *bytes, size_t size, struct cache_parts *parts);

/* The bytes of an entry's file, malloc'ed; null when memory runs out. */
void *cache_entry_pack(const struct cache_key *key, const struct cache_entry *entry, size_t *size);

#endif
