/* choose_gradients: two schedules of flash_async gradients suit only long work. Measured on an H200
   (docs/performance-notes.md).

   Rows of 136 to 192 columns in one launch (the template's block_n of 96): it multiplies five times where three launches
   (128) multiply eight, but its items of 96 keys start more slowly, and it has no second launch whose blocks fill the SMs
   that the last items leave idle.

   Steps of 128 queries (block_m), for rows of at most 64 columns: under a causal mask, half of an item's first step is
   not seen, and with steps of 64 queries an item ends sooner. */
#include "choose_parts.h"
#include "session.h"

#include <math.h>

enum suits { SUITS_ALL, SUITS_ONE_LAUNCH, SUITS_LONG_STEPS };

/* In floating point, since hints may be of any size. */
static double cover(double size, double part) { return ceil(size / part); }

static enum suits kind_of(const struct knobs *found) {
    if (found->family != family_attention_backward || found->algorithm != algorithm_flash_async)
        return SUITS_ALL;
    if (found->block_n == 96)
        return SUITS_ONE_LAUNCH;
    /* with deterministic, a block_m of 128 is the tile of dQ */
    return found->block_m == 128 && found->mask == mask_causal && found->deterministic == 0 && found->head_dim <= 64
               ? SUITS_LONG_STEPS
               : SUITS_ALL;
}

/* Queries of all heads that share an item's keys, at most, where each SM has so many items at most. */
static const struct { double queries, items_per_sm; } short_steps[] = {{900, 3.5}, {1600, 1}};

static bool is_short(double queries, double items_per_sm) {
    for (size_t i = 0; i < sizeof short_steps / sizeof *short_steps; i++)
        if (queries <= short_steps[i].queries && items_per_sm <= short_steps[i].items_per_sm)
            return true;
    return false;
}

bool choose_has_short_gradients(const struct knobs *found) { return kind_of(found) != SUITS_ALL; }

bool choose_are_short_gradients(const struct knobs *found, const struct shape *shape) {
    enum { LEAST_STEPS = 24 };
    const enum suits kind = kind_of(found);
    if (kind == SUITS_ALL || found->layout != layout_dense || shape->batch < 1 || shape->heads < 1 ||
        shape->len_q < 1 || shape->len_kv < 1)
        return false;
    const double heads = (double)shape->heads, kv_heads = shape->kv_heads > 0 ? (double)shape->kv_heads : heads;
    const double items = (double)shape->batch * kv_heads * cover((double)shape->len_kv, found->block_n);
    const double sm_count = (double)shape->sm_count, queries = heads / kv_heads * (double)shape->len_q;
    if (kind == SUITS_LONG_STEPS)
        return is_short(queries, items / sm_count);
    const double steps = heads / kv_heads * cover((double)shape->len_q, found->block_m);
    const double rounds = cover(items, sm_count);
    return steps < LEAST_STEPS || 10 * items < 9 * rounds * sm_count; /* or a tenth of the SMs are idle */
}

bool choose_short_gradients(const struct att_session *session, const struct request *request,
                            const struct table_list *tables, struct choice *choice) {
    struct knobs knobs = request->knobs;
    switch (kind_of(&choice->variant.knobs)) {
    case SUITS_ONE_LAUNCH:
        knobs.block_n = 128;
        return choose_take(session, request, tables, knobs, "few steps, or SMs that one launch would leave idle",
                           choice);
    case SUITS_LONG_STEPS:
        knobs.block_m = 64;
        return choose_take(session, request, tables, knobs, "few queries for each tile of keys", choice);
    default: return false;
    }
}
