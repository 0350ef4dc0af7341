/* Goes through the candidates: first measured ones, then preferred ones. */
#include "choose_parts.h"
#include "session.h"

#include <stdio.h>
#include <string.h>

/* Several preferences may come to the same kernel: it is said once. */
static void pass_over(const struct choice *choice, struct text *passed) {
    struct text line = {0};
    if (!passed)
        return;
    if (*choice->variant.name)
        text_print(&line, "  passed over: %s: %s\n", choice->variant.name, choice->variant.reason);
    else
        text_print(&line, "  passed over: %s for %s: %s\n",
                   knob_word_name(KNOB_algorithm, choice->variant.knobs.algorithm),
                   knob_word_name(KNOB_target, choice->variant.knobs.target), choice->variant.reason);
    if (!strstr(text_string(passed), text_string(&line)))
        text_append(passed, text_string(&line), line.size);
    passed->failed |= line.failed;
    text_free(&line);
}

/* Into how many parts launches of the hinted sizes split the keys. */
static int64_t parts_of(const struct att_session *session, const struct request *request,
                        const struct variant *variant) {
    struct shape shape = choose_shape(request);
    shape.sm_count = session->info.sm_count;
    return plan_split(&variant->splits, &shape) ? shape.key_parts : 1;
}

/* May launches of the hinted sizes gain by a kernel that may split keys? Yes where sizes are left open. */
static bool may_gain(const struct att_session *session, const struct request *request, const struct variant *variant) {
    const struct shape *hints = &request->hints.shape;
    if (!choose_knows_sizes(hints))
        return true;
    if (request->knobs.mask == mask_causal && hints->len_kv > hints->len_q)
        return true; /* all tiles are long, and only such a kernel has them one by one */
    return parts_of(session, request, variant) > 1;
}

/* Where queries of a head fill so little of a Q tile that half of the tiles suffice when the heads of a group share them, they do:
   K and V are read once for the group then. The smallest tile, where it holds all rows of a group. */
static bool pack(const struct att_session *session, const struct request *request, const struct table_list *tables,
                 struct choice *choice) {
    const struct shape *hints = &request->hints.shape;
    const struct variant *apart = &choice->variant;
    int64_t units = apart->derived[DERIVED_tile_rows] / PACKED_ROWS, heads = shape_packed_heads(hints);
    struct knobs knobs = request->knobs;
    struct variant variant;
    if (!request->any_schedule || !knob_in(apart->used, KNOB_pack_gqa) || apart->knobs.pack_gqa != 0 || units < 1 ||
        heads < 2 || hints->heads < 1 || hints->len_q < 1)
        return false;
    int64_t packed_queries = units * (PACKED_ROWS / heads), apart_queries = units * PACKED_ROWS;
    int64_t packed = (hints->len_q + packed_queries - 1) / packed_queries;
    if (2 * packed > (hints->len_q + apart_queries - 1) / apart_queries * heads)
        return false;
    knobs.algorithm = apart->knobs.algorithm;
    knobs.pack_gqa = 1;
    if (hints->len_q * heads <= PACKED_ROWS)
        knobs.block_m = PACKED_ROWS;
    if (!choose_complete(session->templates, knobs, apart->knobs.target, &variant) ||
        !choose_is_usable(session, request, tables, &variant))
        return false;
    choice->variant = variant;
    snprintf(choice->rule, sizeof choice->rule,
             "the heads of a group share Q tiles, since %lld queries fill few; else the template's defaults",
             (long long)hints->len_q);
    choice->by_rule |= KNOB_FLAG(KNOB_pack_gqa) | (knobs.block_m == PACKED_ROWS ? KNOB_FLAG(KNOB_block_m) : 0);
    return true;
}

/* A kernel that may split keys costs nothing where it does not, so it is the first choice unless the hints say that it never will:
   for masks that are words, with scores that are plain, whose loops are the same with it. Where tiles of the choice cannot be split,
   the template's defaults for parts can, but they are slower otherwise. False where there is no such variant. */
static bool split(const struct att_session *session, const struct request *request, const struct table_list *tables,
                  struct choice *choice) {
    struct knobs knobs = choice->variant.knobs;
    struct variant variant;
    if (!request->any_schedule || !knob_in(choice->variant.used, KNOB_splits) || knobs.splits != 1 ||
        knobs.mask == mask_custom_mask || knobs.score == score_custom_score)
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

/* What the sizes of launches ask for beside the choice: heads that share Q tiles, other tiles, keys in parts. */
static bool change_for_sizes(const struct att_session *session, const struct request *request,
                             const struct table_list *tables, struct choice *choice) {
    const bool packed = pack(session, request, tables, choice), known = choose_knows_sizes(&request->hints.shape);
    struct choice in_parts = *choice;
    const bool divided = split(session, request, tables, &in_parts);
    const int64_t parts = divided && known ? parts_of(session, request, &in_parts.variant) : 1;
    if (!packed && choose_tiles(session, request, tables, divided ? &in_parts.variant : NULL, parts, choice))
        return true;
    if (divided)
        *choice = in_parts;
    return packed || divided;
}

/* False where they ask for nothing, or for the variant that they asked for before. */
static bool fit_sizes(const struct att_session *session, const struct request *request, const struct table_list *tables,
                      struct choice *choice) {
    struct choice fitted = *choice;
    if (!change_for_sizes(session, request, tables, &fitted) || strcmp(fitted.variant.name, fitted.fitted) == 0)
        return false;
    *choice = fitted;
    snprintf(choice->fitted, sizeof choice->fitted, "%s", choice->variant.name);
    return true;
}

bool choose_next(struct att_session *session, const struct request *request, struct choice *choice,
                 struct text *passed) {
    char last[VARIANT_NAME] = "";
    bool general = false; /* the reason kept is of a kernel for any device */
    const struct knobs problem = tuned_problem(&request->knobs);
    struct table_list tables = choose_tables(session, &problem);
    if (choice->next > 0)
        snprintf(last, sizeof last, "%s", choice->variant.name);
    while (choice->next <= choose_preferences()) {
        int number = choice->next; /* 0 = the measured one */
        bool whole = choice->whole;
        choice->next++;
        choice->whole = choice->pinned = false;
        if (!(number ? choose_preferred(session, request, number - 1, choice)
                     : choose_measured(session, request, choice)))
            continue;
        if (!choose_is_usable(session, request, &tables, &choice->variant)) {
            bool plain = number && request->knobs.algorithm == AUTO && !knob_in(choice->by_rule, KNOB_algorithm);
            if (!*choice->reason || (plain && !general))
                snprintf(choice->reason, sizeof choice->reason, "%s", choice->variant.reason);
            general = general || plain;
            pass_over(choice, passed);
        } else if (strcmp(choice->variant.name, last) != 0) { /* a tuned row may say what the template says */
            if (!whole && !choice->pinned && fit_sizes(session, request, &tables, choice)) {
                choice->next--; /* once more, for the variant that the sizes do not change */
                choice->whole = true;
            }
            return true;
        }
    }
    return false;
}
