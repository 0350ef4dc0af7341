/* cache_disk: the directory behind a cache, for cache*.c only.

   entries/<digest>      one whole, checked file per key; the modification time is the time of last use
   temporary/<random>    being written; renamed into entries/ when whole
   locks/00 .. ff        empty, never deleted: a flock means "I am compiling a key with this prefix"
   quarantine/<digest>   files that were not whole or not ours

   All file operations are relative to directory descriptors held from open to close. Every one of these functions may
   fail without harm: a lost read is a miss, a lost write is a later compile, a lost lock is duplicate work. */
#ifndef ATTILE_CACHE_DISK_H
#define ATTILE_CACHE_DISK_H

#include "cache.h"

#include <stdatomic.h>
#include <sys/stat.h>

struct cache_disk {
    char *path;                                /* owned; null = memory only */
    int entries, temporary, locks, quarantine; /* descriptors; -1 = not there: read-only, or memory only */
    uint64_t limit;                            /* bytes in entries/ */
    int lock_wait_ms;
    atomic_uint warned;      /* bits of enum cache_warning already logged */
    atomic_ullong published; /* bytes since the limit was last checked */
    void (*log)(void *context, enum att_log_level level, const char *message);
    void *log_context;
};

/* cache_dir.c: finds, makes, checks and opens the directory. Afterwards path is set, or one warning says why not. */
void cache_disk_open(struct cache_disk *disk, const struct cache_options *options);
void cache_disk_close(struct cache_disk *disk); /* safe in a forked child */

/* True if only this user or root can have written the file of `status`; otherwise *why has the reason. */
bool cache_trusted(const struct stat *status, const char **why);

/* Logs one message; those of a kind other than CACHE_WARN_ALWAYS only once per cache. */
enum cache_warning { CACHE_WARN_ALWAYS, CACHE_WARN_WRITE = 1, CACHE_WARN_LOCK = 2, CACHE_WARN_MOVE = 4 };
void cache_warn(struct cache_disk *disk, enum cache_warning once, const char *format, ...) TEXT_PRINTF(3, 4);

/* cache_file.c: one entry's file. */
enum cache_found {
    CACHE_MISS,   /* not there, or not readable now */
    CACHE_HIT,    /* whole, ours and, if a key is given, matching it */
    CACHE_DAMAGED /* there, but unusable: file.damage says why */
};
struct cache_file {
    char *bytes; /* owned; set only by a hit */
    size_t size;
    struct cache_parts parts; /* in bytes */
    const char *damage;       /* static; null unless damaged */
};
/* Reads and checks entries/<digest>. If a key is given, also compares the preimage and records the use for the LRU
   order. */
enum cache_found cache_file_read(struct cache_disk *disk, const char *digest, const struct cache_key *key,
                                 struct cache_file *file);
void cache_file_publish(struct cache_disk *disk, const struct cache_key *key, const struct cache_entry *entry);
void cache_file_quarantine(struct cache_disk *disk, const char *digest, const char *why);

/* cache_lock.c: takes the flock of the key's lock file, waiting at most disk->lock_wait_ms. Returns a descriptor for
   cache_unlock, or -1: continue without it. */
int cache_lock(struct cache_disk *disk, const char *digest);
void cache_unlock(int lock);

/* cache_sweep.c */
void cache_keep_limit(struct cache_disk *disk); /* after publishing: trims if a check is due */
void cache_sweep(struct cache_disk *disk);      /* on open: removes what crashes left behind */

struct cache_listing {
    struct cache_listed {
        char name[CACHE_DIGEST + 1];
        struct stat status;
    } * items; /* owned by the caller, who frees it also after an error */
    size_t count, room;
    uint64_t bytes;
};
/* Lists the files whose names have as many hexadecimal digits as a digest: what we wrote, and nothing else. Returns 0,
   or the errno that cut the list short. */
int cache_list(int directory, struct cache_listing *listing);
void cache_sort(struct cache_listing *listing, int (*order)(const void *, const void *));
int cache_by_name(const void *a, const void *b);

struct cache_tally {  /* what a trim did */
    uint64_t removed; /* files */
    int error;        /* errno of the last file that could not be removed; 0 = none. A file just used does not count. */
    bool dry;         /* only count */
};
/* Seconds that a file may stay there. No writer takes this long, and a clock that jumped may at most cost a publish. */
enum { CACHE_TEMPORARY = 600, CACHE_QUARANTINE = 7 * 24 * 3600 };
void cache_drop_old(int directory, int64_t seconds, struct cache_tally *tally);
void cache_drop_unused(int directory, uint64_t bytes, struct cache_tally *tally); /* the least recently used first */

struct cache_disk *cache_disk_of(struct cache *cache); /* cache.c, for cache_admin.c */

#endif
