/* spec_read and tuned_read when memory runs out: every allocation of a good read is refused once, one after the other,
   including those of libyaml. Under the sanitizers, which bring their own malloc, there is nothing to test with. */
#include "tuned.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__GLIBC__)

#define EVERYWHERE __attribute__((visibility("default"))) /* for libc and libyaml too */

static long allocations_left = -1; /* -1 = unlimited */
static long blocks;                /* allocated and not freed while counting */
static bool counting;
static bool only_one; /* refuse one allocation, not all from it on */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void __libc_free(void *block);

static bool refused(void) {
    if (allocations_left != 0) {
        allocations_left -= allocations_left > 0;
        return false;
    }
    if (only_one)
        allocations_left = -1;
    return true;
}

static void *counted(void *block) {
    blocks += counting && block;
    return block;
}

EVERYWHERE void *malloc(size_t size) { return refused() ? NULL : counted(__libc_malloc(size)); }

EVERYWHERE void *calloc(size_t count, size_t size) { return refused() ? NULL : counted(__libc_calloc(count, size)); }

EVERYWHERE void *realloc(void *block, size_t size) {
    if (refused())
        return NULL;
    void *result = __libc_realloc(block, size);
    blocks += counting && !block && result;
    return result;
}

EVERYWHERE void free(void *block) {
    blocks -= counting && block;
    __libc_free(block);
}

static const char text[] = "family: attention_forward\n"
                           "about: \"with an \\x65scape\"\n"
                           "problem: {dtype: [fp16, bf16], mask: causal}\n"
                           "require:\n  - block_m * 2 > 16 and mask == causal\n"
                           "test:\n  shapes: [{len_q: 3, len_kv: 4}]\n  inputs: {q: a, k: b, v: c}\n";

static const char table[] = "device: d\nmeasured: m\n"
                            "best:\n  - problem: {family: attention_forward, mask: \"k <= q\"}\n    shapes:\n"
                            "      - {shape: {len_q: 1, len_kv: 1}, schedule: {block_m: 64}, margin: 1.5}\n"
                            "      - {shape: {len_q: 2, len_kv: 1}, schedule: {algorithm: flash}}\n"
                            "deny:\n  - {variant: {family: merge}, version: 1, because: slow}\n";

static bool read_spec(struct diag *diag) {
    struct spec *spec = spec_read("spec", text, sizeof text - 1, diag);
    spec_free(spec);
    return spec != NULL;
}

static bool read_table(struct diag *diag) {
    struct tuned *tuned = tuned_read("table", table, sizeof table - 1, diag);
    tuned_free(tuned);
    return tuned != NULL;
}

/* Refuses allocation n of a read. True if the read has that many. */
static bool refuse(bool (*read_text)(struct diag *diag), long n) {
    struct diag diag = {0};
    blocks = 0;
    counting = true;
    allocations_left = n;
    bool read = read_text(&diag);
    bool reached = only_one ? allocations_left < 0 : allocations_left == 0;
    allocations_left = -1;
    bool complained = diag.errors > 0;
    diag_free(&diag);
    counting = false;
    cr_assert_neq(read, complained, "allocation %ld", n);
    cr_assert(reached || read, "allocation %ld", n);
    cr_assert_eq(blocks, 0, "allocation %ld: %ld blocks lost", n, blocks);
    return !read;
}

Test(spec_memory, refuses_cleanly_and_loses_nothing_when_memory_runs_out_at_any_point) {
    only_one = false;
    for (int i = 0; i < 2; i++) {
        long n = 0;
        while (refuse(i ? read_table : read_spec, n))
            n++;
        cr_assert_gt(n, 50);
    }
}

Test(spec_memory, refuses_cleanly_and_loses_nothing_when_any_one_allocation_fails) {
    only_one = true;
    for (int i = 0; i < 2; i++) {
        long n = 0;
        while (refuse(i ? read_table : read_spec, n))
            n++;
        cr_assert_gt(n, 50);
    }
}

#endif
