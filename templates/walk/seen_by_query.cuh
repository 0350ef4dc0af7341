//$ include "walk/keys_seen.cuh"

// The keys that a query sees: all from `first` to `end` - 1.
struct Keys {
    int first, end;
};
__device__ __forceinline__ Keys keys_of(const attention_params &p, int query) { return {0, keys_seen(p, query)}; }
