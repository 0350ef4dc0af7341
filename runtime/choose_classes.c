/* choose_classes: which kernel launches need whose sizes att_find did not know. */
#include "choose_parts.h"
#include "session.h"

/* The first class of each kind. */
enum { DECODE = 0, PACK_FEW = 3, PACK = 4, TILES = PACK + PACKINGS, GRADIENTS = TILES + TILE_ROWS };
_Static_assert(LEAST_ROWS << (PACK_FEW - DECODE - 1) == TUNED_FEW_ROWS, "a class for each Q tile of decode");
_Static_assert(GRADIENTS + GRADIENT_ALTERNATIVES == RULE_CLASSES,
               "a class for each row of the table of tiles, and for each other schedule of gradients");

static bool is_fixed(const struct knobs *knobs) {
    for (int i = 0; i < FIXED_SIZES; i++)
        if (knob_get(knobs, fixed_sizes[i].knob) > 0)
            return true;
    return false;
}

/* False with batch_invariant, since equal bits for all batches require one kernel for all of them, and for a pinned
   kernel, which the caller requested. */
bool choose_has_classes(const struct request *request, const struct choice *choice) {
    const struct knobs *found = &choice->variant.knobs;
    const bool forward = found->family == family_attention_forward &&
                         (found->algorithm == algorithm_flash_async || found->algorithm == algorithm_flash_mma);
    const bool backward = choose_has_alternatives(found);
    return request->any_schedule && !choice->pinned && (forward || backward) && request->knobs.batch_invariant != 1 &&
           !is_fixed(&request->knobs) && !choose_knows_sizes(&request->hints.shape);
}

int choose_class(const struct request *request, const struct variant *found, const struct shape *shape, bool room) {
    if (found->knobs.family == family_attention_backward) {
        const int alternative = choose_alternative(&found->knobs, shape);
        return alternative < 0 ? -1 : GRADIENTS + alternative;
    }
    if (request->hints.shape.len_q < 0) {
        const int64_t rows = tuned_few_rows(shape);
        const enum few_rows few =
            found->knobs.algorithm == algorithm_flash_async ? choose_few(&found->knobs, shape) : FEW_AT_ONCE;
        if (few != FEW_AT_ONCE)
            return few == FEW_PACKED ? PACK_FEW : DECODE;
        for (int i = 0; rows > 0 && i < PACK_FEW - DECODE; i++)
            if (rows <= LEAST_ROWS << i)
                return DECODE + i;
        const int packing = choose_packing(found, shape);
        if (packing >= 0)
            return PACK + packing;
    }
    struct shape in_parts = *shape;
    if (!room || !plan_split(&found->splits, &in_parts))
        in_parts.key_parts = 1;
    const int row = choose_tile_row(&found->knobs, shape, found, in_parts.key_parts);
    return row < 0 ? -1 : TILES + row;
}

/* Chooses the kernel for few queries that att_find would choose. */
static bool choose_decode(struct att_session *session, const struct request *request, const struct table_list *tables,
                          int rows, struct choice *choice) {
    struct request few = *request;
    few.hints.shape.len_q = rows;
    few.hints.shape.heads = few.hints.shape.kv_heads = -1;
    *choice = (struct choice){0};
    const bool measured =
        choose_measured(session, &few, choice) && choose_is_usable(session, &few, tables, &choice->variant);
    return (measured || choose_default(session, &few, tables, choice)) &&
           choice->variant.knobs.algorithm == algorithm_decode;
}

bool choose_for_class(struct att_session *session, const struct request *request, int size_class,
                      struct choice *choice) {
    const struct knobs *found = &choice->variant.knobs, problem = tuned_problem(&request->knobs);
    const struct table_list tables = choose_tables(session, &problem);
    if (size_class >= GRADIENTS)
        return choose_take_alternative(session, request, &tables, size_class - GRADIENTS, choice);
    if (found->family == family_attention_backward)
        return false;
    if (size_class >= TILES)
        return choose_tiles_of_row(session, request, &tables, size_class - TILES, choice);
    if (request->hints.shape.len_q >= 0)
        return false;
    if (size_class == PACK_FEW) {
        choose_packed_few(session, request, true, choice);
        return choose_is_usable(session, request, &tables, &choice->variant);
    }
    if (size_class < PACK_FEW)
        return choose_decode(session, request, &tables, LEAST_ROWS << (size_class - DECODE), choice);
    const struct packing *packing = &choose_packings[size_class - PACK];
    if (!knob_in(choice->variant.used, KNOB_pack_gqa) || found->pack_gqa != 0 ||
        (packing->single && found->algorithm != algorithm_flash_async) ||
        !choose_pack(session, request, &tables, packing, choice))
        return false;
    choose_split(session, request, &tables, choice);
    return true;
}

void choose_print_class(int size_class, struct text *text) {
    if (size_class == PACK_FEW)
        text_print(text, "up to %d rows of Q that share a K/V head, where K and V are large", TUNED_FEW_ROWS);
    else if (size_class < PACK_FEW)
        text_print(text, "up to %d rows of Q that share a K/V head", LEAST_ROWS << (size_class - DECODE));
    else if (size_class < TILES) {
        const struct packing *packing = &choose_packings[size_class - PACK];
        if (packing->block_m == PACKED_ROWS)
            text_print(text, "up to %d rows of Q that share a K/V head", PACKED_ROWS);
        else
            text_print(text, "so few queries that half of the Q tiles hold them when heads of a group share tiles");
        if (packing->single)
            text_print(text, ", at most one Q tile for each SM");
    } else if (size_class < GRADIENTS)
        choose_print_tile_row(size_class - TILES, text);
    else
        choose_print_alternative(size_class - GRADIENTS, text);
}
