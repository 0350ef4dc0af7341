//$ needs thread_m thread_n

// K and V share memory: each tile is copied once all warps have used the previous one.
__device__ __forceinline__ void go_over_keys(const attention_params &p, const Work &work, Head &head, Shared &tile, Place at,
                                             Rows &rows) {
    const KeyRange &keys = work.keys;
    if (keys.first < keys.end)
        work.copies.copy_q(tile, p, head, work.q_tile.row0);
#pragma unroll 1
    for (int key0 = keys.first, next; key0 < keys.end; key0 = next) {
        next = next_tile(p, work.q_tile, keys, key0);
        const int left = p.len_kv - key0; // keys from here on
        __syncthreads();                  // all warps have used V
        work.copies.copy_k(tile, p, head, left);
        copies_wait();
        __syncthreads(); // K has arrived

        float s[THREAD_M][THREAD_N];
        Seen seen;
        weigh_keys(p, work, tile, key0, at, s, seen, rows);

        __syncthreads(); // all warps have used K
        work.copies.copy_v(tile, p, head, left);
        advance_keys(p, head, next - key0);
        copies_wait();
        __syncthreads(); // V has arrived
        add_output(p, work.q_tile, left, tile, at, s, seen, rows.o);
    }
}
