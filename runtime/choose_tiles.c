/* choose_tiles: tiles that the sizes of launches ask for. Measured on an H200 (docs/performance-notes.md).

   Where no SM has more than one or two Q tiles, they are small. Such a launch takes as long as its longest Q tile, and a tile of 64 rows takes about two thirds of the time of one of 128. It waits for
   other things, too: for its first K/V tile and its first maxima. So it keeps maxima (`rescale: lazy`), and where no block has a second
   tile, blocks are not persistent. */
#include "choose_parts.h"
#include "session.h"

#include <stdio.h>

/* CAUSAL: with as many queries as keys, so that a long tile is followed by a short one. WORD: none or causal. */
enum masks { ANY, WORD, CAUSAL, CUSTOM };

static const struct few {
    int block_m, waves; /* Q tiles an SM has at most */
    enum masks masks;
    int above, head_dim; /* head dimensions up to that */
    int block_n, stages, scheduler;
} few[FEW_TILES] = {
    {64, 1, ANY, 0, 192, 128, 2, scheduler_per_tile},       /* 0.34 to 1.00 of the time without this */
    {64, 1, ANY, 192, 256, 64, 2, scheduler_per_tile},      /* 0.55 to 1.04 */
    {64, 2, CAUSAL, 0, 192, 64, 4, scheduler_persistent},   /* 0.66 to 0.96, 1.02 at d 96 and 1000 queries */
    {64, 2, CAUSAL, 192, 256, 64, 2, scheduler_persistent}, /* 0.58 to 0.92 */
    {128, 1, CUSTOM, 0, 128, 64, 3, scheduler_per_tile},    /* 0.55 to 0.94 */
    {128, 1, WORD, 0, 128, 128, 2, scheduler_per_tile},     /* 0.72 to 0.98 */
    {128, 2, CAUSAL, 0, 128, 128, 2, scheduler_persistent}, /* 0.64 to 1.00 */
    {128, 2, CAUSAL, 128, 256, 64, 2, scheduler_persistent} /* 0.63 to 0.98 */
};

static int64_t cover(int64_t size, int64_t part) { return (size + part - 1) / part; }

/* Tiles of 128 rows were measured with plain scores. */
static bool suits(const struct few *row, const struct knobs *knobs) {
    const int head_dim = knobs->head_dim > knobs->head_dim_v ? knobs->head_dim : knobs->head_dim_v;
    const bool plain = knobs->score == score_scaled && knobs->sinks == 0 && knobs->dropout == 0;
    const bool custom = knobs->mask == mask_custom_mask;
    const bool masks[] = {[ANY] = true, [WORD] = !custom, [CAUSAL] = knobs->mask == mask_causal, [CUSTOM] = custom};
    return head_dim > row->above && head_dim <= row->head_dim && masks[row->masks] && (row->block_m == 64 || plain);
}

static bool holds(const struct few *row, const struct shape *shape, const struct knobs *knobs) {
    const int64_t tiles = cover(shape->len_q, row->block_m), most = row->waves * shape->sm_count;
    return suits(row, knobs) && (row->masks != CAUSAL || shape->len_q == shape->len_kv) && shape->batch <= most &&
           shape->heads <= most && tiles <= most && shape->batch * shape->heads * tiles <= most;
}

/* --- or keys in parts ---------------------------------------------------------------------------------------------- */

/* Times are counted as in gen/plan/splits.c: a block of 128 rows is done with a key, and one of `rows` in (rows + 64) / 192 of that. */
enum { START = PLAN_KEYS_START, PART = PLAN_KEYS_PART, COMBINE = PLAN_KEYS_COMBINE };

static int64_t time_of(int64_t keys, int64_t rows) { return keys * (rows + 64) / 192; }

/* The tiles of an SM: all but one of them are short. */
static int64_t time_whole(const struct few *row, const struct shape *shape) {
    return time_of(shape->len_kv + row->waves * START, row->block_m);
}

static int64_t time_in_parts(const struct shape *shape, const struct variant *in_parts, int64_t parts) {
    const int64_t rows = in_parts->knobs.block_m, tiles = shape->batch * shape->heads * cover(shape->len_q, rows);
    const bool causal = in_parts->knobs.mask == mask_causal && shape->len_q == shape->len_kv;
    const int64_t seen = causal ? shape->len_kv / 2 : shape->len_kv, longer = shape->len_kv - seen;
    const int64_t waves = cover(tiles * parts, shape->sm_count);
    return time_of(waves * (seen / parts + START + PART) + longer / parts, rows) + COMBINE;
}

/* --- the choice ------------------------------------------------------------------------------------------------------ */

/* Puts what `knobs` ask for in the place of the choice. */
static bool take(const struct att_session *session, const struct request *request, const struct table_list *tables,
                 struct knobs knobs, const char *why, struct choice *choice) {
    struct variant variant;
    knobs.algorithm = choice->variant.knobs.algorithm;
    if (!choose_complete(session->templates, knobs, choice->variant.knobs.target, &variant) ||
        !choose_is_usable(session, request, tables, &variant))
        return false;
    choice->variant = variant;
    snprintf(choice->rule, sizeof choice->rule, "%s", why);
    for (int id = 0; id < KNOB_COUNT; id++)
        if (knob_get(&knobs, (enum knob_id)id) != knob_get(&request->knobs, (enum knob_id)id))
            choice->by_rule |= KNOB_FLAG(id);
    return true;
}

int choose_few_tiles(const struct knobs *knobs, const struct shape *shape, const struct variant *in_parts,
                     int64_t parts) {
    int row = 0;
    while (row < FEW_TILES && !holds(&few[row], shape, knobs))
        row++;
    if (row == FEW_TILES)
        return -1;
    bool whole =
        parts <= 1 || (few[row].block_m == 64 && time_in_parts(shape, in_parts, parts) >= time_whole(&few[row], shape));
    return whole ? row : -1;
}

void choose_print_few_tiles(int row, struct text *text) {
    text_print(text, "at most %d Q tile%s of %d rows for each SM%s", few[row].waves, few[row].waves == 1 ? "" : "s",
               few[row].block_m, few[row].masks == CAUSAL ? ", and as many queries as keys" : "");
}

bool choose_small_tiles(const struct att_session *session, const struct request *request,
                        const struct table_list *tables, int row, struct choice *choice) {
    struct knobs knobs = request->knobs;
    if (!suits(&few[row], &choice->variant.knobs))
        return false;
    knobs.block_m = few[row].block_m;
    knobs.block_n = few[row].block_n;
    knobs.stages = few[row].stages;
    knobs.scheduler = few[row].scheduler;
    knobs.rescale = rescale_lazy;
    return take(session, request, tables, knobs,
                few[row].waves == 1 ? "small Q tiles, since each SM has one of them at most"
                                    : "small Q tiles, since each SM has two of them at most",
                choice);
}

/* Short causal prompts in small pages: the template's tiles of 192 x 64 suit long ones. With pages of 16 at d 128, tiles of 128 x 128 take 0.72 of
   their time for 1024 tokens and 0.95 for 2048, but 1.08 for 4096. */
static bool take_short(const struct att_session *session, const struct request *request,
                       const struct table_list *tables, struct choice *choice) {
    enum { SHORT = 2048, SMALL_PAGE = 32 };
    const struct knobs *usual = &choice->variant.knobs;
    struct knobs knobs = request->knobs;
    if (usual->mask != mask_causal || usual->page_size < 1 || usual->page_size > SMALL_PAGE || usual->block_m != 192 ||
        usual->head_dim <= 96 || request->hints.shape.len_q < 0 || request->hints.shape.len_q > SHORT)
        return false;
    knobs.block_m = 128;
    knobs.block_n = 128;
    return take(session, request, tables, knobs, "short prompts in small pages take larger K/V tiles", choice);
}

bool choose_tiles(const struct att_session *session, const struct request *request, const struct table_list *tables,
                  const struct variant *in_parts, int64_t parts, struct choice *choice) {
    const struct knobs *usual = &choice->variant.knobs;
    if (!request->any_schedule || usual->family != family_attention_forward ||
        usual->algorithm != algorithm_flash_async)
        return false;
    if (usual->layout != layout_dense)
        return !in_parts && take_short(session, request, tables, choice);
    struct shape shape = request->hints.shape;
    shape.sm_count = session->info.sm_count;
    const int row = choose_knows_sizes(&shape) ? choose_few_tiles(usual, &shape, in_parts, parts) : -1;
    return row >= 0 && choose_small_tiles(session, request, tables, row, choice);
}
