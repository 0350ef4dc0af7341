//$ needs page_size
//$ include "store/place.cuh"

// A paged cache. The page numbers of all sequences form one list.

template <typename Params> __device__ __forceinline__ Place place_of(const Params &p, int, Token token) {
    int first = p.page_indptr[token.sequence], end = p.page_indptr[token.sequence + 1];
    if (token.position < 0 || token.position >= p.len_kv || token.position / PAGE_SIZE >= end - first)
        return {-1, 0};
    int page = p.page_indices[first + token.position / PAGE_SIZE];
    return {0 <= page && page < p.pages ? page : -1, token.position % PAGE_SIZE};
}
