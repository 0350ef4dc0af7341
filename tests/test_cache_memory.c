/* A cache when memory runs out: each allocation of each use fails, first alone, then with all later ones. The result
   must be the right bytes or ATT_OUT_OF_MEMORY, without a crash or a leak (under the address sanitizer), and the next
   use must be right. The linker redirects our calls of malloc, calloc and realloc here (--wrap); calls inside the C
   library are unaffected. */
#include "fixture_cache.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);

static int countdown; /* allocations left until one fails; 0 = none fails */
static bool for_ever; /* fail all later ones too */

static bool fails(void) {
    if (countdown == 0)
        return false;
    if (countdown > 1) {
        countdown--;
        return false;
    }
    countdown = for_ever ? 1 : 0;
    return true;
}

void *__wrap_malloc(size_t size) { return fails() ? NULL : __real_malloc(size); }
void *__wrap_calloc(size_t count, size_t size) { return fails() ? NULL : __real_calloc(count, size); }
void *__wrap_realloc(void *old, size_t size) { return fails() ? NULL : __real_realloc(old, size); }

TestSuite(cache_memory, .init = setup, .fini = teardown, .timeout = 120);

static int look_at(void *context, const struct cache_item *item) {
    (void)context, (void)item;
    return 0;
}

/* Opens, gets key 1, visits, counts, trims and closes, with allocation n failing, and all later ones if `ever`. True if
   none failed: there is no n-th allocation. */
static bool use(int n, bool ever) {
    struct cache_options options = {.dir = directory, .log = sample_log, .log_context = &messages};
    struct sample_build sample = {.number = 1, .size = SIZE};
    struct cache_stat stat;
    struct cache_entry entry = {0};
    struct failure failures[4] = {0};
    struct cache_key key = {0};
    uint64_t removed;
    enum att_status statuses[4] = {ATT_OK, ATT_OK, ATT_OK, ATT_OK};

    countdown = n;
    for_ever = ever;
    sample_key(1, &key);
    struct cache *cache = cache_open(&options);
    if (cache) {
        statuses[0] = cache_get(cache, &key, sample_build, &sample, &entry, NULL, &failures[0]);
        statuses[1] = cache_visit(cache, 1, look_at, NULL, &failures[1]);
        statuses[2] = cache_stat(cache, &stat, &failures[2]);
        statuses[3] = cache_trim(cache, SIZE, 0, 1, &removed, &failures[3]);
    }
    cache_close(cache);
    bool none = !ever && countdown > 0;
    countdown = 0;

    for (int i = 0; i < 4; i++) {
        cr_expect(statuses[i] == ATT_OK || statuses[i] == ATT_OUT_OF_MEMORY, "allocation %d, call %d: %s", n, i,
                  att_status_name(statuses[i]));
        failure_clear(&failures[i]);
    }
    if (cache && statuses[0] == ATT_OK)
        cr_expect(sample_equal(1, SIZE, &entry), "allocation %d", n);
    else
        cr_expect_null(entry.payload, "allocation %d: a failure left bytes", n);
    cache_entry_free(&entry);
    cache_key_free(&key);
    return none;
}

static void damage(void) { cr_assert_eq(scratch_damage(directory, 1), 0); }
static void nothing(void) {}

Test(cache_memory, running_out_anywhere_is_survived) {
    static const struct {
        const char *name;
        bool warm;
        void (*prepare)(void);
    } cases[] = {{"cold", false, nothing}, {"hit", true, nothing}, {"repair", true, damage}};
    for (int ever = 0; ever < 2; ever++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            bool done = false;
            int n = 1;
            for (; !done && n < 60; n++) {
                teardown(), setup();
                if (cases[i].warm)
                    cr_assert_eq(get_at(directory, 1), SAMPLE_BUILT);
                cases[i].prepare();
                done = use(n, ever);
                enum sample_result next = get_at(directory, 1);
                cr_expect(next == SAMPLE_BUILT || next == SAMPLE_HIT, "%s, allocation %d", cases[i].name, n);
                cr_expect_eq(get_at(directory, 1), SAMPLE_HIT, "%s, allocation %d: not healed", cases[i].name, n);
            }
            cr_expect(ever || n > 8, "%s: only %d allocations", cases[i].name, n);
            cr_expect(ever || done, "%s: more than %d allocations", cases[i].name, n);
        }
}
