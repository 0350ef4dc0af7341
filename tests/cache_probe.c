/* cache_probe: one small use of a cache, for tests that kill it or make its system calls fail.

       cache_probe DIRECTORY LIMIT NUMBER    get sample NUMBER
       cache_probe DIRECTORY LIMIT trim      remove everything

   Calls of getppid mark the start of the use, the point where the cache is open, and the end of the use, so that a
   trace shows the calls between them. Exit status: enum sample_result; a failed trim counts as SAMPLE_FAILED. SIGALRM
   kills the probe when it hangs. */
#include "helper_cache.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum sample_result use(const struct cache_options *options, const char *what) {
    getppid();
    struct cache *cache = cache_open(options);
    getppid();
    if (!cache)
        return SAMPLE_FAILED;
    enum sample_result result;
    if (strcmp(what, "trim") == 0) {
        struct failure failure = {0};
        uint64_t removed;
        result = cache_trim(cache, 0, 1, 0, &removed, &failure) == ATT_OK ? SAMPLE_BUILT : SAMPLE_FAILED;
        failure_clear(&failure);
    } else {
        result = sample_get(cache, &(struct sample_build){.number = atoi(what), .size = PROBE_SIZE});
    }
    cache_close(cache);
    getppid();
    return result;
}

int main(int count, char **arguments) {
    if (count != 4)
        return 100;
    alarm(20);
    struct cache_options options = {
        .dir = arguments[1], .limit = strtoull(arguments[2], NULL, 10), .lock_wait_ms = 200};
    return (int)use(&options, arguments[3]);
}
