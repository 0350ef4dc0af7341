//$ needs mask
//$ include "walk/keys_seen.cuh"
//$ include "work/run.cuh"

// The keys that the rows of a Q tile see: none outside [first, end), all within [full_first, full_end), which may be empty.
struct Keys {
    int first, end, full_first, full_end;
};

__device__ __forceinline__ Keys keys_of_tile(const attention_params &p, const Tile &tile) {
    return {0, keys_seen(p, last_query(p, tile)), 0, keys_seen(p, first_query(p, tile))}; //$ if mask == causal
    return {0, p.len_kv, 0, p.len_kv};                                                    //$ else
}
