/* watch: check mode compiles kernels with ThreadSanitizer's instrumentation, which calls a function before every memory
   access. This file defines those functions. They ignore an access to the thread's own stack, and count one to the
   block's shared memory or a recently accessed buffer; for any other access the device looks up the buffer, or reports
   a fault. */
#define ATTILE_INLINE static inline __attribute__((always_inline))

#if ATTILE_MODE == 0 /* ATT_HOST_CHECK */
#if defined(__clang__)
#define ATTILE_UNWATCHED __attribute__((no_sanitize("thread"), disable_sanitizer_instrumentation, noinline))
#else
#define ATTILE_UNWATCHED __attribute__((no_sanitize_thread, noinline))
#pragma GCC optimize("no-tree-sra") /* a float4 is read and written as a whole, so that its alignment is checked */
#endif
#else
#define ATTILE_UNWATCHED inline __attribute__((always_inline))
#endif

typedef unsigned long long attile_word; /* an address, or any 64 bits */

/* The running block and thread, derived from the stack pointer. */
#define attile_stack()      ((attile_word)__builtin_frame_address(0))
#define attile_self()       ((attile_block *)(attile_stack() & -(attile_word)ATTILE_REGION))
#define attile_self_index() ((unsigned)(attile_stack() / ATTILE_STACK % ATTILE_THREADS))

#if ATTILE_MODE == 0

static ATTILE_UNWATCHED void attile_watch(const void *pointer, attile_word size, int write, unsigned alignment,
                                          const void *pc) {
    attile_word address = (attile_word)pointer;
    if (address / ATTILE_STACK == attile_stack() / ATTILE_STACK)
        return;
    attile_block *block = attile_self();
    if (!alignment || address % alignment == 0) {
        attile_word offset = address - (attile_word)block->shared;
        if (offset < block->shared_size && size <= block->shared_size - offset) {
            block->count[write ? ATTILE_SHARED_WRITTEN : ATTILE_SHARED_READ] += size;
            return;
        }
        for (int i = 0; i < ATTILE_RANGES; i++) {
            offset = address - block->range[i].low;
            if (offset < block->range[i].size && size <= block->range[i].size - offset) {
                block->count[write ? ATTILE_GLOBAL_WRITTEN : ATTILE_GLOBAL_READ] += size;
                return;
            }
        }
    }
    block->host->access(block, attile_self_index(), pointer, size, write, alignment, pc);
}

#define ATTILE_CALLBACK extern "C" __attribute__((visibility("hidden"), used)) ATTILE_UNWATCHED void
#define ATTILE_HERE     ((const char *)__builtin_return_address(0) - 1)
#define ATTILE_WATCH(size, alignment_if_aligned)                                                                       \
    ATTILE_CALLBACK __tsan_read##size(void *p) { attile_watch(p, size, 0, alignment_if_aligned, ATTILE_HERE); }        \
    ATTILE_CALLBACK __tsan_write##size(void *p) { attile_watch(p, size, 1, alignment_if_aligned, ATTILE_HERE); }       \
    ATTILE_CALLBACK __tsan_unaligned_read##size(void *p) { attile_watch(p, size, 0, 1, ATTILE_HERE); }                 \
    ATTILE_CALLBACK __tsan_unaligned_write##size(void *p) { attile_watch(p, size, 1, 1, ATTILE_HERE); }                \
    ATTILE_CALLBACK __tsan_volatile_read##size(void *p) { attile_watch(p, size, 0, 1, ATTILE_HERE); }                  \
    ATTILE_CALLBACK __tsan_volatile_write##size(void *p) { attile_watch(p, size, 1, 1, ATTILE_HERE); }
ATTILE_WATCH(1, 1)
ATTILE_WATCH(2, 2)
ATTILE_WATCH(4, 4)
ATTILE_WATCH(8, 8)
ATTILE_WATCH(16, 16)
ATTILE_CALLBACK __tsan_read_range(void *p, unsigned long size) { attile_watch(p, size, 0, 1, ATTILE_HERE); }
ATTILE_CALLBACK __tsan_write_range(void *p, unsigned long size) { attile_watch(p, size, 1, 1, ATTILE_HERE); }
ATTILE_CALLBACK __tsan_func_entry(void *) {}
ATTILE_CALLBACK __tsan_func_exit(void) {}
ATTILE_CALLBACK __tsan_init(void) {}

/* The compiler turns copies into calls of these functions; here they are checked as well. */
extern "C" __attribute__((visibility("hidden"), used)) ATTILE_UNWATCHED void *memcpy(void *to, const void *from,
                                                                                     unsigned long size) {
    attile_watch(from, size, 0, 1, ATTILE_HERE);
    attile_watch(to, size, 1, 1, ATTILE_HERE);
    return attile_self()->host->copy(to, from, size);
}
extern "C" __attribute__((visibility("hidden"), used)) ATTILE_UNWATCHED void *memmove(void *to, const void *from,
                                                                                      unsigned long size) {
    attile_watch(from, size, 0, 1, ATTILE_HERE);
    attile_watch(to, size, 1, 1, ATTILE_HERE);
    return attile_self()->host->copy(to, from, size);
}
extern "C" __attribute__((visibility("hidden"), used)) ATTILE_UNWATCHED void *memset(void *to, int byte,
                                                                                     unsigned long size) {
    attile_watch(to, size, 1, 1, ATTILE_HERE);
    return attile_self()->host->fill(to, byte, size);
}

#else
ATTILE_INLINE void attile_watch(const void *, attile_word, int, unsigned, const void *) {}
#endif
