/* cache_lock: lets one process at a time compile a key, as an optimisation. The kernel drops a flock when its holder
   dies, so the files are never deleted and a lock is never stale. Nothing depends on it: any error means "continue
   without it". */
#include "cache_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ns(void) {
    struct timespec now = {0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Polls, because a blocking flock has no timeout. The pause doubles from 0.25 to 32 ms; a holder compiles for
   seconds. */
static int wait_for(int file, int64_t wait_ms) {
    enum { FIRST_NS = 250 * 1000, LAST_NS = 32 * 1000 * 1000 };
    int64_t end = now_ns() + wait_ms * 1000000;
    for (int64_t pause = FIRST_NS;;) {
        if (flock(file, LOCK_EX | LOCK_NB) == 0)
            return 0;
        if (errno != EWOULDBLOCK && errno != EINTR)
            return errno;
        if (now_ns() >= end)
            return ETIMEDOUT;
        nanosleep(&(struct timespec){.tv_nsec = (long)pause}, NULL);
        pause = pause * 2 < LAST_NS ? pause * 2 : LAST_NS;
    }
}

int cache_lock(struct cache_disk *disk, const char *digest) {
    if (disk->locks < 0)
        return -1;
    const char name[] = {digest[0], digest[1], '\0'};
    int file = openat(disk->locks, name, O_RDONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (file < 0)
        return -1;
    int error = wait_for(file, disk->lock_wait_ms);
    if (!error)
        return file;
    close(file);
    if (error == ETIMEDOUT)
        cache_warn(disk, CACHE_WARN_LOCK, "%s/locks/%s was held for %d ms; going on without it", disk->path, name,
                   disk->lock_wait_ms);
    return -1;
}

void cache_unlock(int lock) {
    if (lock < 0)
        return;
    flock(lock, LOCK_UN); /* a forked child may hold a copy of the descriptor, so closing ours is not enough */
    close(lock);
}
