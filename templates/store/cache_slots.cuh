//$ needs page_size
//$ include "store/place.cuh"

// A paged cache. One number per token gives its page and its row there.

template <typename Params> __device__ __forceinline__ Place place_of(const Params &p, int index, Token) {
    long long slot = p.slots[index];
    bool inside = 0 <= slot && slot < static_cast<long long>(p.pages) * PAGE_SIZE;
    return {inside ? static_cast<int>(slot / PAGE_SIZE) : -1, static_cast<int>(slot % PAGE_SIZE)};
}
