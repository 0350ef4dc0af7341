//$ needs page_size
//$ include "store/place.cuh"

// A paged cache. Each sequence has a row of page numbers.

template <typename Params> __device__ __forceinline__ Place place_of(const Params &p, int, Token token) {
    if (token.position < 0 || token.position >= p.len_kv)
        return {-1, 0};
    int page = p.page_table[token.sequence * p.page_table_row_stride + token.position / PAGE_SIZE];
    return {0 <= page && page < p.pages ? page : -1, token.position % PAGE_SIZE};
}
