//$ needs clears_loaded layout most_shares items_in_parts counters_of_item heads_of_part divides_heads block_n
//$ workspace 4 * counters_of_item * max(2 * most_shares, kv_heads * (packed_keys / block_n + batch)) if divides_heads == 1 else 8 * counters_of_item * most_shares if most_shares > 0

// What follows the sums of dQ in the workspace.
__device__ __forceinline__ unsigned char *end_of_dq_sums(const attention_params &p) {
    return reinterpret_cast<unsigned char *>(dq_sums(p, all_rows(p) / 64));
}

//$ if clears_loaded
// A byte for each four queries, which tells of NaN.
__device__ __forceinline__ unsigned char *row_nan(const attention_params &p, int index) { return end_of_dq_sums(p) + first_row(p, index) / 4; }

//$ end
// For each launch: the number of items that its blocks have taken.
__device__ __forceinline__ int *item_counter(const attention_params &p, int launch) {
    return reinterpret_cast<int *>(end_of_dq_sums(p) + all_rows(p) / 4) + launch; //$ if clears_loaded
    return reinterpret_cast<int *>(end_of_dq_sums(p)) + launch;                   //$ else
}
//$ if clears_loaded

// Behind these counters: NAN_FOUND if there is a NaN in LSE or dO, any other number if not. So nothing has to clear first what the memory
// happens to hold; the last launch sets the number to 0. If it held NAN_FOUND by chance, producers would look for NaN in vain.
constexpr int NAN_FOUND = 0x4e614e21; // "NaN!"
__device__ __forceinline__ int *nan_found(const attention_params &p) { return item_counter(p, 2); }
//$ end
//$ if items_in_parts

// Pieces of the workspace are aligned to 256 bytes.
__device__ __forceinline__ void *next_piece(void *end) {
    return reinterpret_cast<void *>((reinterpret_cast<unsigned long long>(end) + 255) / 256 * 256);
}

// For each warp of an item that is computed in parts, the number of parts that it has stored: (items, COUNTERS_OF_ITEM).
__device__ __forceinline__ int *part_counters(const attention_params &p) {
    return static_cast<int *>(next_piece(item_counter(p, 4)));
}
//$ if divides_heads == 1

// Returns for how many tiles of keys, of all sequences and heads, there are counters.
__device__ __forceinline__ int key_tile_count(const attention_params &p) {
    const int keys = p.total_kv;         //$ if layout == ragged
    const int keys = p.batch * p.len_kv; //$ else
    return p.kv_heads * (keys / BLOCK_N + p.batch);
}

// Returns the number of parts into which the heads that share keys may be divided, however many items there are: 1 if most keys are seen by
// all queries, and so most tiles are equally long. As in the workspace of backward/parts.cuh.
__device__ __forceinline__ int parts_of_heads(const attention_params &p) {
    const int rows = p.total_q, keys = p.total_kv; //$ if layout == ragged
    const int rows = p.len_q, keys = p.len_kv;     //$ else
    return keys - rows > rows ? 1 : (p.heads / p.kv_heads + HEADS_OF_PART - 1) / HEADS_OF_PART;
}
//$ end

// Returns the number of counters that may be in use.
__device__ __forceinline__ int part_counter_count(const attention_params &p) {
    //$ if divides_heads == 1
    return COUNTERS_OF_ITEM * max(2 * MOST_SHARES, p.heads > p.kv_heads ? key_tile_count(p) : 0);
    //$ else
    return COUNTERS_OF_ITEM * 2 * MOST_SHARES;
    //$ end
}
//$ end
