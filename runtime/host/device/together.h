/* together: functions that the threads of a block or a warp execute together: barriers, shuffles, votes, atomics. */
#define ATTILE_LINE int line = __builtin_LINE() /* the caller's */

static ATTILE_UNWATCHED void __syncthreads(ATTILE_LINE) {
    attile_self()->host->barrier(attile_self(), attile_self_index(), line);
}

static ATTILE_UNWATCHED attile_word attile_together(int operation, unsigned mask, attile_word value, int source,
                                                    int line) {
    return attile_self()->host->collective(attile_self(), attile_self_index(), operation, mask, value, source, line);
}

ATTILE_INLINE void __syncwarp(unsigned mask = 0xffffffffu, ATTILE_LINE) {
    attile_together(ATTILE_SYNC, mask, 0, 0, line);
}
ATTILE_INLINE unsigned __ballot_sync(unsigned mask, int predicate, ATTILE_LINE) {
    return (unsigned)attile_together(ATTILE_BALLOT, mask, predicate != 0, 0, line);
}
ATTILE_INLINE int __any_sync(unsigned mask, int predicate, ATTILE_LINE) {
    return attile_together(ATTILE_BALLOT, mask, predicate != 0, 0, line) != 0;
}
ATTILE_INLINE int __all_sync(unsigned mask, int predicate, ATTILE_LINE) {
    return attile_together(ATTILE_BALLOT, mask, predicate == 0, 0, line) == 0;
}

template <class T> ATTILE_INLINE T attile_pick(unsigned mask, T value, int source, int line) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move 4 or 8 bytes");
    if constexpr (sizeof(T) == 4)
        return attile_bits<T>((unsigned)attile_together(ATTILE_PICK, mask, attile_bits<unsigned>(value), source, line));
    else
        return attile_bits<T>(attile_together(ATTILE_PICK, mask, attile_bits<attile_word>(value), source, line));
}
ATTILE_INLINE int attile_lane() { return (int)(threadIdx.x % ATTILE_WARP); }

/* Shuffles work within segments of `width` lanes; a source outside the segment means the lane itself. */
template <class T>
ATTILE_INLINE T __shfl_sync(unsigned mask, T value, int source, int width = ATTILE_WARP, ATTILE_LINE) {
    int lane = attile_lane();
    return attile_pick(mask, value, (lane & -width) + (source & (width - 1)), line);
}
template <class T>
ATTILE_INLINE T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = ATTILE_WARP, ATTILE_LINE) {
    int lane = attile_lane(), source = lane ^ lanes;
    return attile_pick(mask, value, source < (lane & -width) + width ? source : lane, line);
}
template <class T>
ATTILE_INLINE T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = ATTILE_WARP, ATTILE_LINE) {
    int lane = attile_lane(), source = lane - (int)delta;
    return attile_pick(mask, value, source >= (lane & -width) ? source : lane, line);
}
template <class T>
ATTILE_INLINE T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = ATTILE_WARP, ATTILE_LINE) {
    int lane = attile_lane(), source = lane + (int)delta;
    return attile_pick(mask, value, source < (lane & -width) + width ? source : lane, line);
}

/* Reduces over the lanes of `mask`, all of which receive the result. */
template <class T, class Better> ATTILE_INLINE T attile_reduce(unsigned mask, T value, Better better, int line) {
    T best = value;
    for (int lane = 0; lane < ATTILE_WARP; lane++)
        if (mask >> lane & 1) {
            T other = attile_pick(mask, value, lane, line);
            best = better(other, best) ? other : best;
        }
    return best;
}
ATTILE_INLINE int __reduce_min_sync(unsigned mask, int value, ATTILE_LINE) {
    return attile_reduce(
        mask, value, [](int a, int b) { return a < b; }, line);
}
ATTILE_INLINE int __reduce_max_sync(unsigned mask, int value, ATTILE_LINE) {
    return attile_reduce(
        mask, value, [](int a, int b) { return a > b; }, line);
}

/* Relaxed atomics: they do not order other accesses. Each counts as one read and one write. */
static ATTILE_UNWATCHED void attile_watch_atomic(const void *address, unsigned size) {
    attile_watch(address, size, 0, size, (const char *)__builtin_return_address(0) - 1);
    attile_watch(address, size, 1, size, (const char *)__builtin_return_address(0) - 1);
}
template <class T> static ATTILE_UNWATCHED bool attile_exchange(T *address, T *expected, T desired) {
    return __atomic_compare_exchange(address, expected, &desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
template <class T> static ATTILE_UNWATCHED T attile_load(T *address) {
    T value;
    __atomic_load(address, &value, __ATOMIC_RELAXED);
    return value;
}
template <class T, class Change> ATTILE_INLINE T attile_atomic(T *address, Change change) {
    attile_watch_atomic(address, sizeof(T));
    T old = attile_load(address);
    while (!attile_exchange(address, &old, change(old))) {
    }
    return old;
}
#define ATTILE_ATOMIC(name, type, result)                                                                              \
    ATTILE_INLINE type name(type *address, type value) {                                                               \
        return attile_atomic(address, [=](type old) -> type { return result; });                                       \
    }
ATTILE_ATOMIC(atomicAdd, float, old + value)
ATTILE_ATOMIC(atomicAdd, int, (int)((unsigned)old + (unsigned)value))
ATTILE_ATOMIC(atomicAdd, unsigned, old + value)
ATTILE_ATOMIC(atomicAdd, unsigned long long, old + value)
ATTILE_ATOMIC(atomicMax, int, old < value ? value : old)
ATTILE_ATOMIC(atomicMax, unsigned, old < value ? value : old)
ATTILE_ATOMIC(atomicExch, int, ((void)old, value))
#define ATTILE_CAS(type)                                                                                               \
    ATTILE_INLINE type atomicCAS(type *address, type compare, type value) {                                            \
        return attile_atomic(address, [=](type old) -> type { return old == compare ? value : old; });                 \
    }
ATTILE_CAS(int)
ATTILE_CAS(unsigned)
ATTILE_CAS(unsigned long long)
