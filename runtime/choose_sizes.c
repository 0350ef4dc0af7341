/* choose_sizes: what the sizes of launches change in a choice. */
#include "choose_parts.h"
#include "session.h"

#include <stdio.h>

/* The smallest tile, where it holds all rows of a group. Single tiles have 128 rows at most, so that most of them are
   in use, and keep maxima: the start of a tile or of a part of its keys, for which from_sum searches a first maximum,
   is much of their time, and so is reading its longer code (H200, performance-notes.md). Their K/V tiles, up to d 128,
   are those of single tiles of one head (choose_tiles.c). */
enum { PACK_SMALL, PACK_USUAL, PACK_SINGLE_SMALL, PACK_SINGLE };
const struct packing choose_packings[PACKINGS] = {
    [PACK_SMALL] = {false, PACKED_ROWS, AUTO, AUTO, AUTO},
    [PACK_USUAL] = {false, AUTO, AUTO, AUTO, AUTO},
    [PACK_SINGLE_SMALL] = {true, PACKED_ROWS, 128, 2, rescale_lazy},
    [PACK_SINGLE] = {true, 2 * PACKED_ROWS, 128, 2, rescale_lazy},
};

static int64_t cover(int64_t size, int64_t part) { return (size + part - 1) / part; }

int choose_packing(const struct variant *apart, const struct shape *shape) {
    int64_t units = apart->derived[DERIVED_tile_rows] / PACKED_ROWS, heads = shape_packed_heads(shape);
    if (!knob_in(apart->used, KNOB_pack_gqa) || apart->knobs.pack_gqa != 0 || units < 1 || heads < 2 ||
        shape->heads < 1 || shape->len_q < 1)
        return -1;
    int64_t packed_queries = units * (PACKED_ROWS / heads), apart_queries = units * PACKED_ROWS;
    if (2 * cover(shape->len_q, packed_queries) > cover(shape->len_q, apart_queries) * heads)
        return -1;
    const bool small = shape->len_q * heads <= PACKED_ROWS;
    const int64_t most = shape->sm_count, groups = shape->heads / heads;
    const int64_t tiles = small ? 1 : cover(shape->len_q, 2 * (PACKED_ROWS / heads));
    if (apart->knobs.algorithm != algorithm_flash_async || shape->batch < 0 || shape->batch > most || groups > most ||
        tiles > most || shape->batch * groups * tiles > most)
        return small ? PACK_SMALL : PACK_USUAL;
    return small ? PACK_SINGLE_SMALL : PACK_SINGLE;
}

bool choose_pack(const struct att_session *session, const struct request *request, const struct table_list *tables,
                 const struct packing *packing, struct choice *choice) {
    const struct knobs *apart = &choice->variant.knobs;
    const bool large = apart->head_dim > 128 || apart->head_dim_v > 128;
    struct knobs knobs = request->knobs;
    struct variant variant;
    const struct {
        enum knob_id knob;
        int value;
    } wishes[] = {{KNOB_pack_gqa, 1},
                  {KNOB_block_m, packing->block_m},
                  {KNOB_block_n, large ? AUTO : packing->block_n},
                  {KNOB_stages, large ? AUTO : packing->stages},
                  {KNOB_rescale, packing->rescale}};
    knob_flags wished = 0;
    for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++)
        if (wishes[i].value != AUTO) {
            knob_set(&knobs, wishes[i].knob, wishes[i].value);
            wished |= KNOB_FLAG(wishes[i].knob);
        }
    knobs.algorithm = apart->algorithm;
    if (!choose_complete(session->templates, knobs, apart->target, &variant) ||
        !choose_is_usable(session, request, tables, &variant))
        return false;
    choice->variant = variant;
    choice->by_rule |= wished;
    snprintf(choice->rule, sizeof choice->rule,
             "the heads of a group share Q tiles, since the queries of one head fill too little of them%s; else the "
             "template's defaults",
             packing->single ? ", and keep maxima, since each SM has at most one" : "");
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
    struct shape shape = request->hints.shape;
    shape.sm_count = session->info.sm_count;
    if (choice->variant.knobs.family == family_attention_backward) {
        const int alternative = known ? choose_alternative(&choice->variant.knobs, &shape) : -1;
        return alternative >= 0 && choose_take_alternative(session, request, tables, alternative, choice);
    }
    const int packing = choose_packing(&choice->variant, &shape);
    const bool packed = packing >= 0 && choose_pack(session, request, tables, &choose_packings[packing], choice);
    struct choice in_parts = *choice;
    const bool divided = choose_split(session, request, tables, &in_parts);
    const int64_t parts = divided && known ? parts_of(session, request, &in_parts.variant) : 1;
    if (!packed && choose_tiles(session, request, tables, divided ? &in_parts.variant : NULL, parts, choice))
        return true;
    if (divided)
        *choice = in_parts;
    return packed || divided;
}
