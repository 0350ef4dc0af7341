//$ needs mask score algorithm
//$ include "params/attention.h"
//$ include "target/any.cuh"
//$ let by_tiles = algorithm != flash and algorithm != multi_pass and algorithm != decode
//$ include "expression/bounds.cuh" if mask == custom_mask and by_tiles

// The mask and the score of this problem, generated from their expressions. Positions q and k are absolute: equal
// positions are the same token, and the last query and the last key are aligned.

struct Where {
    int b, h, hk; // batch, head of the queries, head of the keys and values
};

// index = batch * heads + head, in 32 bits where it fits: a 64-bit division is a function call.
template <typename Index> __device__ __forceinline__ Where where_is(const attention_params &p, Index index) {
    const int head = static_cast<int>(index % p.heads);
    return {static_cast<int>(index / p.heads), head, head / (p.heads / p.kv_heads)};
}

__device__ __forceinline__ int position_of(const attention_params &p, int query) { return query - p.len_q + p.len_kv; }

//$ code helpers
//$ code tensors
//$ if mask == custom_mask and by_tiles
//$ code bounds
//$ end

//$ if mask == custom_mask
//$ if algorithm in [flash_async, flash_mma]
// True if the query sees the key. Key is int or another type that represents a key.
template <typename Key>
__device__ __forceinline__ bool sees(const attention_params &p, const Where &at, int q, Key k) {
    //$ else
// True if the query sees the key.
__device__ __forceinline__ bool sees(const attention_params &p, const Where &at, int q, int k) {
    //$ end
    //$ code mask
}

// The keys that queries q_first .. q_last see: none outside [first, end), all within [full_first, full_end), which may be
// empty.
struct Keys {
    int first, end, full_first, full_end;
};
__device__ __forceinline__ Keys keys_of(const attention_params &p, const Where &at, int q_first, int q_last) {
    //$ code keys
}
//$ end
//$ if mask == custom_mask and by_tiles

// Exact: each key in [first, end) is seen by some query; no key outside [full_first, full_end) is seen by all.
//$ code exact

// The first is false only if no query of q_first .. q_last sees a key of k_first .. k_last, the second true only if each sees all.
__device__ __forceinline__ bool some_seen(const attention_params &p, const Where &at, int q_first, int q_last,
                                          int k_first, int k_last) {
    //$ code some
}
__device__ __forceinline__ bool all_seen(const attention_params &p, const Where &at, int q_first, int q_last,
                                         int k_first, int k_last) {
    //$ code all
}

// Returns the first key of the first K/V tile of STEP keys, from key0 on, in which some query sees a key; `end` or more if there
// is none. All lanes of a warp call it, and each lane classifies a different tile.
template <int STEP>
__device__ __forceinline__ int next_needed(const attention_params &p, const Where &at, int q_first, int q_last, int key0,
                                         int end) {
    if constexpr (!KEYS_EXACT) {
        for (; key0 < end; key0 += 32 * STEP) {
            const int mine = key0 + static_cast<int>(threadIdx.x) % 32 * STEP;
            const bool needed = mine < end && some_seen(p, at, q_first, q_last, mine, min(mine + STEP, end) - 1);
            const unsigned tiles = __ballot_sync(0xffffffffu, needed);
            if (tiles != 0)
                return key0 + (__ffs(static_cast<int>(tiles)) - 1) * STEP;
        }
    }
    return key0;
}

// True if all queries are known to see all keys of the tile at key0.
template <int STEP>
__device__ __forceinline__ bool is_full(const attention_params &p, const Where &at, int q_first, int q_last,
                                        const Keys &keys, int key0) {
    if (key0 >= keys.full_first && key0 + STEP <= keys.full_end)
        return true;
    return !FULL_EXACT && key0 + STEP <= keys.end && all_seen(p, at, q_first, q_last, key0, key0 + STEP - 1);
}
//$ end

//$ if score == custom_score
//$ if algorithm in [flash_async, flash_mma]
// Returns the score for the scaled score s. Key is int or another type that represents a key.
template <typename Key>
__device__ __forceinline__ float score_of(const attention_params &p, const Where &at, int q, Key k, float s) {
    //$ else
// Returns the score for the scaled score s.
__device__ __forceinline__ float score_of(const attention_params &p, const Where &at, int q, int k, float s) {
    //$ end
    //$ code score
}
//$ end
