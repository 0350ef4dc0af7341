/* choose_gradients: schedules of flash_async gradients for little work; the default suits long work. Measured on an H200
   (docs/performance-notes-gradients.md). */
#include "choose_parts.h"
#include "session.h"

#include <math.h>

/* The work of a launch. Items are tiles of keys of one K/V head. */
struct work {
    double group;        /* heads that share an item's keys */
    double queries;      /* of all of them */
    double items_per_sm; /* on average */
    double parts_per_sm; /* at most: items may be divided among the heads (templates/backward/parts_of_items.cuh) */
    double steps;        /* of a head, at most */
    double keys;         /* of a head */
    double rounds;       /* items of the SM that has the most */
};

/* In floating point, since hints may be of any size. */
static double cover(double size, double part) { return ceil(size / part); }

static struct work work_of(const struct knobs *found, const struct shape *shape) {
    const double heads = (double)shape->heads, kv_heads = shape->kv_heads > 0 ? (double)shape->kv_heads : heads;
    const double items = (double)shape->batch * kv_heads * cover((double)shape->len_kv, found->block_n);
    const double sm_count = (double)shape->sm_count;
    return (struct work){heads / kv_heads,
                         heads / kv_heads * (double)shape->len_q,
                         items / sm_count,
                         items * heads / kv_heads / sm_count,
                         cover((double)shape->len_q, found->block_m),
                         (double)shape->len_kv,
                         cover(items, sm_count)};
}

/* Rows of 136 to 192 columns in one launch multiply five times where three launches multiply eight, but items of 96 keys
   start more slowly, and no second launch has blocks that fill the SMs which the last items leave idle. */
static bool is_one_launch(const struct knobs *found) { return found->block_n == 96; }

/* True if a tenth of the SMs would be idle, were items not divided. */
static bool leaves_sms_idle(const struct work *work) { return 10 * work->items_per_sm < 9 * work->rounds; }

static bool suits_three_in_order(bool causal, const struct work *work) {
    return work->steps < (causal ? 64 : 16) || work->items_per_sm < (causal ? 3.5 : 1.25) || leaves_sms_idle(work);
}

/* Under a causal mask, items of shared heads are long enough to be divided (templates/backward/shares.cuh). */
static bool suits_three_for_shared_heads(bool causal, const struct work *work) {
    const double item_steps = work->group * work->steps;
    if (work->steps < 10)
        return true;
    if (!causal)
        return item_steps < 24 && leaves_sms_idle(work);
    if (work->items_per_sm < 1)
        return work->steps < 16;
    return work->steps < 32 || (work->items_per_sm < 2 && item_steps < 165);
}

/* How many keys tiles of 96 have room for, in times of tiles of 128. */
static double rounding_of_96(double keys) { return 96 * cover(keys, 96) / (128 * cover(keys, 128)); }

static bool suits_three_for_other_heads(bool causal, const struct work *work) {
    if (work->steps < 5)
        return true;
    if (causal || work->items_per_sm < 1)
        return work->items_per_sm < 1 && leaves_sms_idle(work);
    const double rounding = rounding_of_96(work->keys);
    return (work->steps < 10 && rounding > 1.1) ||
           (work->steps <= 16 && rounding > 1 && work->items_per_sm < 3 && leaves_sms_idle(work));
}

static bool suits_three_launches(const struct knobs *found, const struct work *work) {
    const bool causal = found->mask == mask_causal;
    if (found->deterministic == 1)
        return suits_three_in_order(causal, work);
    return work->group > 1 ? suits_three_for_shared_heads(causal, work) : suits_three_for_other_heads(causal, work);
}

/* Rows of 256 columns in clusters of two blocks. Clusters take whole items, so some have nothing to do at the end. */
static bool is_in_clusters(const struct knobs *found) {
    return found->head_dim == 256 && found->dq_in == dq_in_dq_memory;
}

/* With an order of additions, clusters also wait for each other, most of all in short items, and in items that differ in length and share
   their keys: the longest is then the last to finish with every head. */
static bool leaves_clusters_idle(const struct knobs *found, const struct work *work) {
    const bool causal = found->mask == mask_causal, ordered = found->deterministic == 1;
    const double items_per_cluster = 2 * work->items_per_sm;
    if (ordered && causal && work->steps < 32 && items_per_cluster < (work->group > 1 ? 4 : 1.5))
        return true;
    if (ordered && !causal && work->group * work->steps <= 16 && items_per_cluster <= 2)
        return true;
    if (causal) /* items differ in length, and three launches divide those of shared heads */
        return items_per_cluster < (work->group > 1 ? 1.5 : 1.2);
    return 3 * items_per_cluster <= 2 * ceil(items_per_cluster); /* a third of the clusters, on average */
}

/* A launch of its own for dQ multiplies S and dP again. But its blocks run beside those that compute dK and dV, and add
   nothing in memory. */
static bool adds_dq(const struct knobs *found) {
    return found->dq_in == dq_in_dq_memory && !is_one_launch(found) && !is_in_clusters(found) &&
           found->mask != mask_custom_mask && found->score != score_custom_score && found->dropout == 0;
}

/* With an order of additions, blocks wait for each other, also in long work; with steps of 64 queries, under a causal mask,
   most of all in short items, and in few items that differ in length. Up to 96 columns, launches of their own are faster than
   one whose last items leave a fifth of the SMs idle. */
static bool suits_dq_launch(const struct knobs *found, const struct work *work) {
    const bool causal = found->mask == mask_causal, short_steps = found->block_m == 64;
    const bool in_turn = short_steps && found->head_dim <= 96 && found->head_dim_v <= 96;
    if (found->deterministic == 1 && short_steps && causal)
        return work->queries <= 512 || work->parts_per_sm < (work->group > 1 ? 3.5 : 2.5);
    if (found->deterministic == 1)
        return work->parts_per_sm < (in_turn ? 1.6 : 1.25);
    if (work->group > 1 && work->parts_per_sm <= (causal ? 0.75 : 0.25))
        return true;
    return causal ? work->items_per_sm <= 1 && work->queries <= 1024
                  : work->items_per_sm <= 0.5 && work->queries <= 2048;
}

/* Under a causal mask half of an item's first step is not seen. With steps of 64 queries an item ends sooner. */
static bool has_long_steps(const struct knobs *found) {
    return adds_dq(found) && found->block_m == 128 && found->mask == mask_causal && found->deterministic == 0;
}

static bool suits_short_steps(const struct knobs *found, const struct work *work) {
    (void)found;
    return (work->queries <= 900 && work->items_per_sm <= 3.5) || (work->queries <= 1600 && work->items_per_sm <= 1);
}

/* In order, the first tile of keys stores dQ, so no launch clears its sums. Each later tile waits for those before it. Without a
   mask all tiles of a head are equally long, and where many heads take turns, few of them wait. */
static bool clears_dq(const struct knobs *found) {
    return (adds_dq(found) || is_in_clusters(found)) && found->mask == mask_none && found->deterministic == 0;
}

static bool suits_order(const struct knobs *found, const struct work *work) {
    enum { MOST_TILES = 2, MOST_TILES_OF_LONG_ROWS = 5 };
    const bool long_rows = found->head_dim > 96 || found->head_dim_v > 96;
    const double tiles = cover(work->keys, found->block_n);
    return long_rows ? tiles <= MOST_TILES_OF_LONG_ROWS && work->items_per_sm >= 3.5
                     : tiles <= MOST_TILES && work->items_per_sm >= 3.5 * tiles;
}

/* The first that suits is taken. */
static const struct alternative {
    bool (*may_suit)(const struct knobs *found);
    bool (*suits)(const struct knobs *found, const struct work *work);
    enum knob_id knob;
    int value;
    const char *why;
} alternatives[] = {
    {is_one_launch, suits_three_launches, KNOB_block_n, 128, "few steps, or SMs that one launch would leave idle"},
    {is_in_clusters, leaves_clusters_idle, KNOB_dq_in, dq_in_dq_registers, "clusters that would be idle"},
    {adds_dq, suits_dq_launch, KNOB_dq_in, dq_in_dq_registers, "few tiles of keys"},
    {clears_dq, suits_order, KNOB_deterministic, 1, "few tiles of keys of many heads"},
    {has_long_steps, suits_short_steps, KNOB_block_m, 64, "few queries for each tile of keys"},
};
_Static_assert(sizeof alternatives / sizeof *alternatives == GRADIENT_ALTERNATIVES, "a row for each");

static bool may_suit(const struct alternative *alternative, const struct knobs *found) {
    return found->family == family_attention_backward && found->algorithm == algorithm_flash_async &&
           alternative->may_suit(found);
}

bool choose_has_alternatives(const struct knobs *found) {
    for (int i = 0; i < GRADIENT_ALTERNATIVES; i++)
        if (may_suit(&alternatives[i], found))
            return true;
    return false;
}

int choose_alternative(const struct knobs *found, const struct shape *shape) {
    if (found->layout != layout_dense || shape->batch < 1 || shape->heads < 1 || shape->len_q < 1 || shape->len_kv < 1)
        return -1;
    for (int i = 0; i < GRADIENT_ALTERNATIVES; i++) {
        if (!may_suit(&alternatives[i], found))
            continue;
        const struct work work = work_of(found, shape);
        if (alternatives[i].suits(found, &work))
            return i;
    }
    return -1;
}

bool choose_take_alternative(const struct att_session *session, const struct request *request,
                             const struct table_list *tables, int number, struct choice *choice) {
    const struct alternative *alternative = &alternatives[number];
    if (!may_suit(alternative, &choice->variant.knobs))
        return false;
    struct knobs knobs = request->knobs;
    knob_set(&knobs, alternative->knob, alternative->value);
    return choose_take(session, request, tables, knobs, alternative->why, choice);
}

void choose_print_alternative(int number, struct text *text) {
    text_print(text, "gradients with %s", alternatives[number].why);
}
