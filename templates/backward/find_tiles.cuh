//$ include "backward/found_tiles.cuh"

// Which tiles of queries see an item's keys takes many instructions and, if tensors say it, loads behind one another. So a warp of its own
// takes items and finds their tiles, while another warp loads those of the item before.

// An item is taken when this many tiles of the one before are left to load: long enough ahead of its first load, but late, so that blocks
// end together.
constexpr int TILES_LEFT = 4;

// Takes items, and hands their tiles to the warp that loads them.
__device__ __forceinline__ void find_tiles(const attention_params &all, SharedKeys &shared, const ItemCounter &counter) {
    const bool elected = elect_one();
    Ring<1> ring = {0};
#pragma unroll 1
    for (bool first = true;; first = false) {
        const Item item = take_item(all, counter, first);
        QueryTiles walk = {};
        bool more = item.key0 >= 0;
        if (more) {
            walk = queries_of(own_sequence(all, item), item);
            more = find_queries(own_sequence(all, item), walk);
        }
        do {
            if (elected) {
                shared.found.item = item;
                shared.found.tiles = walk;
            }
            walk.needed = 0;
            more = more && find_queries(own_sequence(all, item), walk);
            if (elected) {
                shared.found.last = !more;
                barrier_arrive(&shared.found_full);
            }
            if (item.key0 < 0)
                return;
            barrier_wait(&shared.found_empty, ring.parity());
            ring.count++;
        } while (more);
    }
}

// Returns what the warp has found next. Called by all lanes of the warp that loads.
__device__ __forceinline__ FoundTiles take_found(SharedKeys &shared, Ring<1> &ring) {
    barrier_wait(&shared.found_full, ring.parity());
    FoundTiles found = shared.found;
    found.held = true;
    ring.count++;
    return found;
}

// Returns the item's next tile; its first query is negative if there is none.
__device__ __forceinline__ OtherTile next_found(SharedKeys &shared, FoundTiles &found, Ring<1> &ring) {
    if (found.tiles.needed == 0 && !found.last)
        found = take_found(shared, ring);
    if (found.held && (!found.last || __popc(found.tiles.needed) <= TILES_LEFT)) {
        __syncwarp(); // all lanes have read what was found
        if (elect_one())
            barrier_arrive(&shared.found_empty);
        found.held = false;
    }
    if (found.tiles.needed == 0)
        return {0, -1, 0};
    return take_queries(found.tiles);
}
