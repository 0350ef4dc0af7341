/* choose_sizes: what the sizes of launches change in a choice. */
#include "choose_parts.h"
#include "session.h"

#include <stdio.h>

int choose_packing(const struct variant *apart, const struct shape *shape) {
    int64_t units = apart->derived[DERIVED_tile_rows] / PACKED_ROWS, heads = shape_packed_heads(shape);
    if (!knob_in(apart->used, KNOB_pack_gqa) || apart->knobs.pack_gqa != 0 || units < 1 || heads < 2 ||
        shape->heads < 1 || shape->len_q < 1)
        return 0;
    int64_t packed_queries = units * (PACKED_ROWS / heads), apart_queries = units * PACKED_ROWS;
    int64_t packed = (shape->len_q + packed_queries - 1) / packed_queries;
    if (2 * packed > (shape->len_q + apart_queries - 1) / apart_queries * heads)
        return 0;
    return shape->len_q * heads <= PACKED_ROWS ? PACKED_ROWS : AUTO;
}

bool choose_pack(const struct att_session *session, const struct request *request, const struct table_list *tables,
                 int block_m, struct choice *choice) {
    struct knobs knobs = request->knobs;
    struct variant variant;
    knobs.algorithm = choice->variant.knobs.algorithm;
    knobs.pack_gqa = 1;
    knobs.block_m = block_m;
    if (!choose_complete(session->templates, knobs, choice->variant.knobs.target, &variant) ||
        !choose_is_usable(session, request, tables, &variant))
        return false;
    choice->variant = variant;
    snprintf(choice->rule, sizeof choice->rule,
             "the heads of a group share Q tiles, since the queries of one head fill too little of them; else the "
             "template's defaults");
    choice->by_rule |= KNOB_FLAG(KNOB_pack_gqa) | (block_m == AUTO ? 0 : KNOB_FLAG(KNOB_block_m));
    return true;
}

/* The number of parts into which launches of the hinted sizes split the keys. */
static int64_t parts_of(const struct att_session *session, const struct request *request,
                        const struct variant *variant) {
    struct shape shape = choose_shape(request);
    shape.sm_count = session->info.sm_count;
    return plan_split(&variant->splits, &shape) ? shape.key_parts : 1;
}

/* True if launches of the hinted sizes may gain from a kernel that may split keys; also if some sizes are not known. */
static bool may_gain(const struct att_session *session, const struct request *request, const struct variant *variant) {
    const struct shape *hints = &request->hints.shape;
    if (!choose_knows_sizes(hints))
        return true;
    if (request->knobs.mask == mask_causal && hints->len_kv > hints->len_q)
        return true; /* all tiles are long, and only such a kernel processes them one by one */
    return parts_of(session, request, variant) > 1;
}

bool choose_split(const struct att_session *session, const struct request *request, const struct table_list *tables,
                  struct choice *choice) {
    struct knobs knobs = choice->variant.knobs;
    struct variant variant;
    if (!knob_in(choice->variant.used, KNOB_splits) || knobs.splits != 1 || knobs.mask == mask_custom_mask ||
        knobs.score == score_custom_score)
        return false;
    knobs.splits = 0;
    bool same_tiles = variant_complete(session->templates, &knobs, true, &variant) &&
                      choose_is_usable(session, request, tables, &variant);
    if (!same_tiles) {
        if (!choose_knows_sizes(&request->hints.shape))
            return false;
        knobs = request->knobs;
        knobs.algorithm = choice->variant.knobs.algorithm;
        knobs.pack_gqa = choice->variant.knobs.pack_gqa;
        knobs.splits = 0;
        if (!choose_complete(session->templates, knobs, choice->variant.knobs.target, &variant) ||
            !choose_is_usable(session, request, tables, &variant))
            return false;
    }
    if (!may_gain(session, request, &variant))
        return false;
    if (!same_tiles)
        snprintf(choice->rule, sizeof choice->rule,
                 "the algorithm for this kind of GPU, with the template's defaults for keys in parts");
    choice->variant = variant;
    choice->by_rule |= KNOB_FLAG(KNOB_splits);
    return true;
}

bool choose_fit(const struct att_session *session, const struct request *request, const struct table_list *tables,
                struct choice *choice) {
    if (!request->any_schedule || choice->fits)
        return false;
    const bool known = choose_knows_sizes(&request->hints.shape);
    const int packing = choose_packing(&choice->variant, &request->hints.shape);
    const bool packed = packing && choose_pack(session, request, tables, packing, choice);
    struct choice in_parts = *choice;
    const bool divided = choose_split(session, request, tables, &in_parts);
    const int64_t parts = divided && known ? parts_of(session, request, &in_parts.variant) : 1;
    if (!packed && choose_tiles(session, request, tables, divided ? &in_parts.variant : NULL, parts, choice))
        return true;
    if (divided)
        *choice = in_parts;
    return packed || divided;
}
