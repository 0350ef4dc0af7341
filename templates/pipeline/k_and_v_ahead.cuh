//$ needs thread_m thread_n

// K and V have separate memory: V is copied while K is used, and the next K while V is used.
__device__ __forceinline__ void go_over_keys(const attention_params &p, const Work &work, Head &head, Shared &tile, Place at,
                                             Rows &rows) {
    const KeyRange &keys = work.keys;
    if (keys.first < keys.end) {
        work.copies.copy_q(tile, p, head, work.q_tile.row0);
        work.copies.copy_k(tile, p, head, p.len_kv - keys.first);
    }
#pragma unroll 1
    for (int key0 = keys.first, next; key0 < keys.end; key0 = next) {
        next = next_tile(p, work.q_tile, keys, key0);
        const int left = p.len_kv - key0; // keys from here on
        copies_wait();
        __syncthreads(); // K has arrived, and all warps have used V
        work.copies.copy_v(tile, p, head, left);

        float s[THREAD_M][THREAD_N];
        Seen seen;
        weigh_keys(p, work, tile, key0, at, s, seen, rows);

        advance_keys(p, head, next - key0);
        copies_wait();
        __syncthreads(); // V has arrived, and all warps have used K
        if (next < keys.end)
            work.copies.copy_k(tile, p, head, left_from_next(p, left, next));
        add_output(p, work.q_tile, left, tile, at, s, seen, rows.o);
    }
}
