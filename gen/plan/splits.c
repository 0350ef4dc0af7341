/* splits: how many parts the keys of a Q tile are split into. Different blocks work on the parts, so few Q tiles
   fill many SMs; a second launch combines them.

   The unit of time is a key: the time that a block takes for one key of its Q tile. Per row of the tile a key takes 2
   (d + d_v) flop, and a part is written and read again, 8 (d_v + 1) bytes. A part therefore costs 4 (d_v + 1) / (d +
   d_v) flop per byte times what the GPU computes while it moves a byte, which is 120 to 160 on the GPUs from Ampere to
   Hopper: about 256 keys for any tile. Starting a block's pipeline takes as long as about 128 keys, and the second
   launch 3 us, about 256. */
#include "plan.h"

enum { START = PLAN_KEYS_START, PART = PLAN_KEYS_PART, COMBINE = PLAN_KEYS_COMBINE, WAVES = 8 };

static int64_t cover(int64_t size, int64_t part) { return (size + part - 1) / part; }

/* The keys of the first `rounds` rounds of a block, if tiles come in order of their keys, every other round backwards,
   and the keys of a tile are spread evenly from KEYS down to 2 SEEN - KEYS. */
static int64_t keys_of_rounds(const int64_t value[PLAN_SPLIT_EXPRS], int64_t rounds) {
    const int64_t keys = value[PLAN_SPLIT_KEYS], longer = keys - value[PLAN_SPLIT_SEEN];
    return rounds * keys - longer * (rounds * rounds - rounds % 2) * value[PLAN_SPLIT_ON] / value[PLAN_SPLIT_TILES];
}

/* The time without parts. In an even number of rounds, the longest block may be one that has no tile in the last. */
static int64_t time_whole(const int64_t value[PLAN_SPLIT_EXPRS]) {
    const int64_t rounds = cover(value[PLAN_SPLIT_TILES], value[PLAN_SPLIT_ON]);
    const int64_t all = keys_of_rounds(value, rounds), but_one = keys_of_rounds(value, rounds - 1);
    return (all > but_one ? all : but_one) + rounds * START;
}

/* Chooses the number of parts. A tile visits `value[PLAN_SPLIT_SEEN]` keys on average; the tile with the most keys
   takes correspondingly longer. For each number of waves the largest number of parts is best, so only a few are
   compared; among equals the smallest wins. */
static int64_t choose(const int64_t value[PLAN_SPLIT_EXPRS]) {
    const int64_t most = value[PLAN_SPLIT_MOST], tiles = value[PLAN_SPLIT_TILES], on = value[PLAN_SPLIT_ON];
    const int64_t seen = value[PLAN_SPLIT_SEEN], longer = value[PLAN_SPLIT_KEYS] - seen;
    if (most < 2 || tiles < 1 || on < 1 || tiles > on * WAVES / 2)
        return 1;
    int64_t best = 1, least = time_whole(value);
    for (int64_t waves = 1, parts = 1; waves <= WAVES && parts < most; waves++) {
        parts = waves * on / tiles < most ? waves * on / tiles : most;
        parts = parts > 1 ? parts : 1;
        int64_t time = cover(tiles * parts, on) * (cover(seen, parts) + START + PART) + longer / parts + COMBINE;
        if (parts > 1 && time < least) {
            least = time;
            best = parts;
        }
    }
    return best;
}

bool plan_split(const struct plan_splits *splits, struct shape *shape) {
    int64_t value[PLAN_SPLIT_EXPRS];
    shape->key_parts = 1;
    if (!splits->expr[PLAN_SPLIT_MOST].count)
        return true;
    int given = splits->expr[PLAN_SPLIT_TILES].count ? PLAN_SPLIT_EXPRS : 1;
    for (int i = 0; i < given; i++)
        if (!plan_eval(&splits->expr[i], shape, &value[i]) || value[i] < 0 || value[i] > INT32_MAX)
            return false;
    shape->key_parts = given == 1 ? value[PLAN_SPLIT_MOST] : choose(value);
    return shape->key_parts >= 1;
}

void plan_print_splits(const struct plan_splits *splits, struct text *text) {
    for (int i = 0; i < PLAN_SPLIT_EXPRS && splits->expr[i].count; i++) {
        text_print(text, "%s %s ", i ? "," : "", plan_split_name[i]);
        plan_print(&splits->expr[i], text);
    }
}
