// The part of a Consumer that finds the next tile of keys, and which of them its rows see.

    // Which keys of a tile this thread's rows see.
    __device__ __forceinline__ Seen seen_of(int tile_n) {
        int key = tile_n * BLOCK_N + lane % 4 * 2;
        //$ if mask_tiles == intervals
        const int first_row = row(), upper = position(first_row), lower = position(first_row + 8);
        const Keys keys[2] = {keys_of(a, span.where, upper, upper), keys_of(a, span.where, lower, lower)};
        return seen_between(key, {keys[0].first, keys[1].first}, {keys[0].end, keys[1].end});
        //$ elif mask != custom_mask
        const int first_row = row(); // of which few tiles need the end, so it is not kept
        return seen_below(key, {keys_end(a, row_of(a, span.tile, unit, first_row).query + 1),
                                keys_end(a, row_of(a, span.tile, unit, first_row + 8).query + 1)});
        //$ else
        Seen seen = {};
        int first_row = row(), position[2] = {this->position(first_row), this->position(first_row + 8)};
        //$ if mask_lookup == by_pair
        if (keys_in_pairs(a) && (tile_n + 1) * BLOCK_N <= a.len_kv) {
            int first = set_apart(key); // so that addresses are of rows, plus constants
#pragma unroll
            for (int i = 0; i < Seen::COLUMNS; i++) {
                MaskKey k;
                set_key(k, first, i / 2 * 8 + i % 2);
#pragma unroll
                for (int r = 0; r < 2; r++)
                    if (sees(a, span.where, position[r], k))
                        seen.bits[r][i / 32] |= 1u << i % 32;
            }
            return seen;
        }
        //$ end
        Seen there = seen_below(key, {a.len_kv, a.len_kv});
#pragma unroll
        for (int word = 0; word < Seen::WORDS; word++, key += 128) {
//$ if mask_lookup == no_lookup
#pragma unroll 4
//$ else
#pragma unroll 1
//$ end
            for (int i = 0; i < min(32, Seen::COLUMNS - 32 * word); i++)
#pragma unroll
                for (int r = 0; r < 2; r++)
                    if (sees(a, span.where, position[r], min(key + i / 2 * 8 + i % 2, a.len_kv - 1)))
                        seen.bits[r][word] |= 1u << i;
#pragma unroll
            for (int r = 0; r < 2; r++)
                seen.bits[r][word] &= there.bits[r][word];
        }
        return seen;
        //$ end
    }

    // The next tile of keys, while its S is multiplied.
    __device__ __forceinline__ void find_next() {
        //$ if mask == custom_mask
        span.next = next_keys(a, span.tile, unit, span.walk);
        span.whole = span.walk.whole;
        //$ else
        span.next = --span.tiles;
        span.whole = span.next < span.unmasked;
        //$ end
        //$ if mask_tiles == bitmap
        if (!span.whole)
            span.seen = seen_of(span.next);
        //$ end
    }
    // s = -INFINITY where the mask says so.
    __device__ __forceinline__ void mask_scores() {
        //$ if mask_tiles == bitmap
        mask_tile(s, span.seen); // of find_next
        //$ else
        mask_tile(s, seen_of(span.next));
        //$ end
    }
